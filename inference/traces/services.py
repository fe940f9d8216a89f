"""Reading traces."""

from datetime import UTC
from typing import cast

from django.utils import timezone
from msgspec import UNSET

from inference.protocol.traces import MARK, Status, Trace, TracesAnswer, TracesQuery
from inference.registry.wanted import off_the_loop
from inference.traces.models import Span
from shared.accounts.authentication import Principal


async def read_traces(*, caller: Principal, asked: TracesQuery) -> TracesAnswer:
    """The caller's own, or everybody's for who manages models. A span is there about a second after its end."""
    return TracesAnswer(await off_the_loop(_read, caller, asked))


def _read(caller: Principal, asked: TracesQuery) -> list[Trace]:
    spans = Span.objects.for_principal(caller).kept(timezone.now())
    if asked.trace_id is not UNSET:
        spans = spans.filter(trace_id=asked.trace_id.removeprefix(MARK))
    for name in ("operation_name", "status", "request_id"):
        if (value := getattr(asked, name)) is not UNSET:
            spans = spans.filter(**{name: value})
    return [_told(span) for span in spans[: asked.limit]]


def _told(span: Span) -> Trace:
    return Trace(
        trace_id=f"{MARK}{span.trace_id}",
        span_id=span.span_id,
        operation_name=span.operation_name,
        start_time=span.started_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        duration_ms=span.duration_ms,
        status=cast(Status, span.status),
        parent_span_id=span.parent_span_id or None,
        request_id=span.request_id,
        user=span.user_id,
        attributes=span.attributes,
    )
