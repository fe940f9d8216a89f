"""Traces: what processes and servers did for a request, as spans.

    with tracing.trace_request("http", headers=headers): ...   a request arrives: a trace starts or continues
    span = tracing.start_span("stream")                       a child span, which may end anywhere
    tracing.end_span(span)

If the request is not traced, `start_span` returns None and the other functions do nothing. Spans hold names, ids and
numbers, never content. Exceptions are not recorded, since their messages may quote content.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.observability.request_fields import current_fields
from shared.observability.request_id import current_request_id

USER_ID = "user.id"
REQUEST_ID = "stoa.request_id"
HEADERS = ("traceparent", "tracestate")

Attributes = Mapping[str, str | int | float]

_propagator = TraceContextTextMapPropagator()
_tracer: Tracer | None = None

__all__ = [
    "Attributes",
    "Span",
    "SpanKind",
    "annotate_span",
    "current_trace_id",
    "end_span",
    "propagation_headers",
    "record_span",
    "set_tracer",
    "start_span",
    "trace_request",
    "use_span",
]


def set_tracer(tracer: Tracer | None) -> None:
    """Use this tracer for the process from now on; None disables tracing."""
    global _tracer
    _tracer = tracer


@contextmanager
def trace_request(
    name: str,
    *,
    headers: Mapping[str, str] | None = None,
    kind: SpanKind = SpanKind.SERVER,
    wanted: bool = True,
) -> Iterator[Span | None]:
    """Trace one request: as a span of a new trace, or of the trace in `headers`.

    Yield None if the request is not traced. `wanted` is False for requests that are not worth a trace.
    """
    if _tracer is None or not wanted:
        yield None
        return
    context = _propagator.extract(headers or {}, context=Context())
    span = _tracer.start_span(name, context=context, kind=kind)
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        try:
            yield span if span.is_recording() else None
        finally:
            end_span(span, _identity_attributes())  # the user is known by now


def start_span(name: str, *, kind: SpanKind = SpanKind.INTERNAL, alone: bool = False) -> Span | None:
    """Start a child of the current span; return None if nothing is traced.

    With `alone`, start a new trace if there is no current span.
    """
    if _tracer is None:
        return None
    around = trace.get_current_span()
    if not (around.is_recording() or (alone and not around.get_span_context().is_valid)):
        return None
    span = _tracer.start_span(name, kind=kind, attributes=_identity_attributes())
    return span if span.is_recording() else None


def record_span(of: Span, name: str, began: float, ended: float) -> None:
    """Record a child of `of` that has ended, with its times by time.monotonic()."""
    if _tracer is None:
        return
    known: Mapping[str, Any] = getattr(of, "attributes", None) or {}
    identity = {key: known[key] for key in (USER_ID, REQUEST_ID) if key in known}
    now = time.time_ns() - time.monotonic_ns()
    context = trace.set_span_in_context(of, Context())
    span = _tracer.start_span(name, context=context, attributes=identity, start_time=now + round(began * 1e9))
    span.end(end_time=now + round(ended * 1e9))


def annotate_span(span: Span | None, attributes: Attributes, *, failed: bool = False) -> None:
    """Add attributes to a running span. `failed` marks an error of the server, not one of the request."""
    if span is None:
        return
    span.set_attributes(attributes)
    if failed:
        span.set_status(Status(StatusCode.ERROR))


def end_span(span: Span | None, attributes: Attributes | None = None, *, failed: bool = False) -> None:
    """End the span, if there is one."""
    if span is not None:
        annotate_span(span, attributes or {}, failed=failed)
        span.end()


@contextmanager
def use_span(span: Span | None) -> Iterator[None]:
    """Make the span the current one during the block, without ending it."""
    if span is None:
        yield
        return
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        yield


def propagation_headers(of: Span | None = None) -> dict[str, str]:
    """Return the W3C Trace Context headers that continue the trace of `of`, or of the current span, in another server.

    They also carry the decision not to trace. They are empty if there was no decision.
    """
    headers: dict[str, str] = {}
    if _tracer is not None:
        _propagator.inject(headers, context=trace.set_span_in_context(of or trace.get_current_span(), Context()))
    return headers


def current_trace_id() -> str:
    """Return the id of the current trace, 32 hexadecimal digits; "" if nothing is traced."""
    if _tracer is None:
        return ""
    span = trace.get_current_span()
    return trace.format_trace_id(span.get_span_context().trace_id) if span.is_recording() else ""


def _identity_attributes() -> dict[str, str]:
    identity = {USER_ID: str(current_fields().get("user_id", "")), REQUEST_ID: current_request_id()}
    return {name: value for name, value in identity.items() if value}
