"""Read stored spans."""

from datetime import UTC
from typing import cast

from django.utils import timezone
from msgspec import UNSET

from inference.protocol.native.traces import TRACE_ID_PREFIX, SpanStatus, TraceSpan, TracesQuery, TracesResponse
from inference.traces.models import Span
from shared.accounts.authentication import Principal
from shared.serving.db_threads import run_in_db_thread


async def read_traces(*, caller: Principal, query: TracesQuery) -> TracesResponse:
    """Return the caller's spans, or everybody's if the caller manages models.

    A span is stored about a second after its end.
    """
    return TracesResponse(await run_in_db_thread(_read, caller, query))


def _read(caller: Principal, query: TracesQuery) -> list[TraceSpan]:
    spans = Span.objects.for_principal(caller).recent(timezone.now())
    if query.trace_id is not UNSET:
        spans = spans.filter(trace_id=query.trace_id.removeprefix(TRACE_ID_PREFIX))
    for name in ("operation_name", "status", "request_id"):
        if (value := getattr(query, name)) is not UNSET:
            spans = spans.filter(**{name: value})
    return [_to_wire(span) for span in spans[: query.limit]]


def _to_wire(span: Span) -> TraceSpan:
    return TraceSpan(
        trace_id=f"{TRACE_ID_PREFIX}{span.trace_id}",
        span_id=span.span_id,
        operation_name=span.operation_name,
        start_time=span.started_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        duration_ms=span.duration_ms,
        status=cast(SpanStatus, span.status),
        parent_span_id=span.parent_span_id or None,
        request_id=span.request_id,
        user=span.user_id,
        attributes=span.attributes,
    )
