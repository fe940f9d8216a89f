"""Routes of metrics."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from inference.access.operations import Call, operation
from inference.metrics import services
from inference.protocol.metrics import CustomMetricAnswer, CustomMetricBody
from shared.accounts.roles import Permission
from shared.observability.metrics import CONTENT_TYPE

_SUMMARY = "What this machine's processes have counted"


@operation("GET", summary=_SUMMARY, permission=Permission.READ_METRICS, content="text/plain")
async def private_metrics(call: Call[None]) -> HttpResponse:
    """Prometheus' text form. Anybody may read it where STOA_METRICS_PUBLIC is true."""
    return HttpResponse(await services.read_metrics(), content_type=CONTENT_TYPE)


@operation("GET", summary=_SUMMARY, permission=None, content="text/plain")
async def public_metrics(call: Call[None]) -> HttpResponse:
    """Prometheus' text form."""
    return HttpResponse(await services.read_metrics(), content_type=CONTENT_TYPE)


@csrf_exempt
async def metrics(request: HttpRequest, **from_the_path: Any) -> HttpResponseBase:
    return await (public_metrics if settings.METRICS_PUBLIC else private_metrics)(request, **from_the_path)


metrics.operations = private_metrics.operations  # type: ignore[attr-defined]


@operation(
    "POST",
    summary="Send a number for a metric of your own",
    permission=Permission.WRITE_METRICS,
    body=CustomMetricBody,
    answer=CustomMetricAnswer,
)
async def custom_metric(call: Call[CustomMetricBody]) -> CustomMetricAnswer:
    """It is told by GET /metrics of the machine that took it, until its server ends."""
    body = call.body
    value = await services.record_custom(name=body.name, kind=body.type, value=body.value, labels=body.labels)
    return CustomMetricAnswer(status="ok", name=body.name, type=body.type, value=value, labels=body.labels)
