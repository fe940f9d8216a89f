"""Traces: what was done for a request, span by span, in every process and on every server that worked on it.

    with tracing.root("http", headers=headers): ...     where a request comes in, and a trace begins or goes on
    span = tracing.start("stream")                      a part of it, which may end anywhere
    tracing.end(span)

Where nothing is traced, or not this request, `start_span` returns None and the rest does nothing. A span holds names,
ids and numbers: never what somebody said. No exception is recorded, as its words might.
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
    """From now on this process traces with it; None: not at all."""
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
    """Around what is done for one request: a span of a new trace, or of the one that `headers` name. None where it is
    not traced. `wanted`: False for what is not worth a trace."""
    if _tracer is None or not wanted:
        yield None
        return
    context = _propagator.extract(headers or {}, context=Context())
    span = _tracer.start_span(name, context=context, kind=kind)
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        try:
            yield span if span.is_recording() else None
        finally:
            end_span(span, _whose())  # who asks is known by now


def start_span(name: str, *, kind: SpanKind = SpanKind.INTERNAL, alone: bool = False) -> Span | None:
    """A part of what is traced just now, which begins now. `alone`: where it is a part of nothing, a trace begins."""
    if _tracer is None:
        return None
    around = trace.get_current_span()
    if not (around.is_recording() or (alone and not around.get_span_context().is_valid)):
        return None
    span = _tracer.start_span(name, kind=kind, attributes=_whose())
    return span if span.is_recording() else None


def record_span(of: Span, name: str, began: float, ended: float) -> None:
    """A part of `of` that is over, with its times of time.monotonic()."""
    if _tracer is None:
        return
    known: Mapping[str, Any] = getattr(of, "attributes", None) or {}
    whose = {key: known[key] for key in (USER_ID, REQUEST_ID) if key in known}
    now = time.time_ns() - time.monotonic_ns()
    context = trace.set_span_in_context(of, Context())
    span = _tracer.start_span(name, context=context, attributes=whose, start_time=now + round(began * 1e9))
    span.end(end_time=now + round(ended * 1e9))


def annotate_span(span: Span | None, attributes: Attributes, *, failed: bool = False) -> None:
    """What is known of a span before its end. `failed`: something broke; a wrong request is none of that."""
    if span is None:
        return
    span.set_attributes(attributes)
    if failed:
        span.set_status(Status(StatusCode.ERROR))


def end_span(span: Span | None, attributes: Attributes | None = None, *, failed: bool = False) -> None:
    """The end of a span, if there is one."""
    if span is not None:
        annotate_span(span, attributes or {}, failed=failed)
        span.end()


@contextmanager
def use_span(span: Span | None) -> Iterator[None]:
    """What is done in the block is a part of this span, which it does not end."""
    if span is None:
        yield
        return
    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        yield


def propagation_headers(of: Span | None = None) -> dict[str, str]:
    """What tells another server which trace this belongs to: of a span, or of what is done just now; also that it is
    not to be traced, where that was decided. Empty where nobody decided anything."""
    told: dict[str, str] = {}
    if _tracer is not None:
        _propagator.inject(told, context=trace.set_span_in_context(of or trace.get_current_span(), Context()))
    return told


def current_trace_id() -> str:
    """32 hexadecimal digits; "" where nothing is traced."""
    if _tracer is None:
        return ""
    span = trace.get_current_span()
    return trace.format_trace_id(span.get_span_context().trace_id) if span.is_recording() else ""


def _whose() -> dict[str, str]:
    whose = {USER_ID: str(current_fields().get("user_id", "")), REQUEST_ID: current_request_id()}
    return {name: value for name, value in whose.items() if value}
