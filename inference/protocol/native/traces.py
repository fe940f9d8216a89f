"""GET /traces: what was done for requests, span by span."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

TRACE_ID_PREFIX = "trace_"
MAX_TRACES = 1000

SpanStatus = Literal["ok", "error"]


class TracesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which spans. Those that fit all of it."""

    limit: Annotated[int, Meta(ge=1, le=MAX_TRACES)] = 100
    trace_id: (
        Annotated[str, Meta(max_length=64, description="As it is told here, or as in a traceparent.")] | UnsetType
    ) = UNSET
    operation_name: Annotated[str, Meta(max_length=300)] | UnsetType = UNSET
    status: SpanStatus | UnsetType = UNSET
    request_id: Annotated[str, Meta(max_length=128)] | UnsetType = UNSET


class TraceSpan(Struct, kw_only=True):
    """One span. `start_time` is UTC's. `parent_span_id` null: the trace began here. `user` is who asked."""

    trace_id: str
    span_id: str
    operation_name: str
    start_time: str
    duration_ms: int
    status: SpanStatus
    parent_span_id: str | None
    request_id: str
    user: int
    attributes: dict[str, str | int | float]


class TracesResponse(Struct):
    """Newest first."""

    traces: list[TraceSpan]
