"""Wire structs of GET /traces."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

TRACE_ID_PREFIX = "trace_"
MAX_TRACES = 1000

SpanStatus = Literal["ok", "error"]
TRACE_ID_EXAMPLE = "trace_0af7651916cd43dd8448eb211c80319c"


class TracesQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Filters of spans; a span matches all of them."""

    limit: Annotated[
        int, Meta(ge=1, le=MAX_TRACES, description="Maximum number of spans in the response.", examples=[100])
    ] = 100
    trace_id: (
        Annotated[
            str,
            Meta(
                max_length=64,
                description="Id of the trace, as this route returns it or as in a `traceparent` header.",
                examples=[TRACE_ID_EXAMPLE],
            ),
        ]
        | UnsetType
    ) = UNSET
    operation_name: (
        Annotated[
            str, Meta(max_length=300, description="Name of the operation.", examples=["inference.stoa-describer"])
        ]
        | UnsetType
    ) = UNSET
    status: Annotated[SpanStatus, Meta(description="Whether the operation succeeded.")] | UnsetType = UNSET
    request_id: (
        Annotated[
            str,
            Meta(max_length=128, description="Id of the request.", examples=["req_5b8d1f0c9a7e4d2b8c3f6a10"]),
        ]
        | UnsetType
    ) = UNSET


class TraceSpan(Struct, kw_only=True):
    """One span of a trace."""

    trace_id: Annotated[str, Meta(description="Id of the trace.", examples=[TRACE_ID_EXAMPLE])]
    span_id: Annotated[str, Meta(description="Id of the span.", examples=["b7ad6b7169203331"])]
    operation_name: Annotated[str, Meta(description="Name of the operation.", examples=["inference.stoa-describer"])]
    start_time: Annotated[
        str, Meta(description="Start of the span in ISO 8601, UTC.", examples=["2026-11-21T18:05:00.412803Z"])
    ]
    duration_ms: Annotated[int, Meta(description="Duration of the span in milliseconds.", examples=[310])]
    status: Annotated[SpanStatus, Meta(description="Whether the operation succeeded.")]
    parent_span_id: Annotated[
        str | None,
        Meta(description="Id of the parent span, or null for the root of the trace.", examples=["00f067aa0ba902b7"]),
    ]
    request_id: Annotated[str, Meta(description="Id of the request.", examples=["req_5b8d1f0c9a7e4d2b8c3f6a10"])]
    user: Annotated[int, Meta(description="Id of the user who sent the request.", examples=[1])]
    attributes: Annotated[
        dict[str, str | int | float],
        Meta(
            description="Attributes of the span, named as OpenTelemetry names them.",
            examples=[{"gen_ai.usage.output_tokens": 24}],
        ),
    ]


class TracesResponse(Struct):
    """Spans, newest first."""

    traces: Annotated[list[TraceSpan], Meta(description="Spans, newest first.")]
