"""OpenAPI texts and examples of traces."""

from inference.access.docs import TEXT_MODEL, OperationDocs

TRACES = OperationDocs(
    summary="List the spans of recent requests",
    description="""
    Returns the spans of requests of the last day that match all given parameters, newest first. It needs the permission
    `read_traces`, and returns spans of your own requests; with `manage_models` it returns those of all users. A request
    takes part in a trace of yours if it carries a W3C `traceparent` header.
    """,
    response_example={
        "traces": [
            {
                "trace_id": "trace_0af7651916cd43dd8448eb211c80319c",
                "span_id": "b7ad6b7169203331",
                "operation_name": f"inference.{TEXT_MODEL}",
                "start_time": "2026-11-21T18:05:00.412803Z",
                "duration_ms": 310,
                "status": "ok",
                "parent_span_id": "00f067aa0ba902b7",
                "request_id": "req_5b8d1f0c9a7e4d2b8c3f6a10",
                "user": 1,
                "attributes": {"gen_ai.request.model": TEXT_MODEL, "gen_ai.usage.output_tokens": 24},
            }
        ]
    },
)
