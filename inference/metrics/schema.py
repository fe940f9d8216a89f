"""OpenAPI texts and examples of metrics."""

from inference.access.docs import OperationDocs

METRICS = OperationDocs(
    summary="Get metrics for Prometheus",
    description="""
    Returns the metrics of this machine's processes in Prometheus' text format. It needs the permission `read_metrics`,
    unless the operator has made metrics public with the setting `STOA_METRICS_PUBLIC`.
    """,
)

CUSTOM_METRIC = OperationDocs(
    summary="Record a custom metric",
    description="""
    Sets a gauge, adds to a counter or observes a value in a histogram of your own. It needs the permission
    `write_metrics`. `GET /metrics` of the same machine returns it until the server stops. It answers 400 for a name
    that begins with `stoa_`, for a second type of the same name and for too many series.
    """,
    request_examples={
        "A gauge": {"name": "carts_open", "value": 12, "type": "gauge", "labels": {"shop": "north"}},
        "A counter": {"name": "carts_paid_total", "value": 1, "type": "counter"},
    },
    response_example={
        "status": "ok",
        "name": "carts_open",
        "type": "gauge",
        "value": 12.0,
        "labels": {"shop": "north"},
    },
)
