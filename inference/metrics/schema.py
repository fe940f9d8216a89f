"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

METRICS = OperationDocs(
    summary="What this machine's processes have counted",
    description="Prometheus' text form. Anybody may read it where STOA_METRICS_PUBLIC is true.",
)


CUSTOM_METRIC = OperationDocs(
    summary="Send a number for a metric of your own",
    description="It is told by GET /metrics of the machine that took it, until its server ends.",
)
