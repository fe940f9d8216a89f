"""Routes of metrics."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from inference.access.operations import OperationCall, operation
from inference.metrics import schema, services
from inference.protocol.native.metrics import CustomMetricRequest, CustomMetricResponse
from shared.accounts.roles import Permission
from shared.observability.metrics import CONTENT_TYPE


@operation("GET", docs=schema.METRICS, permission=Permission.READ_METRICS, content_type="text/plain")
async def private_metrics(call: OperationCall[None]) -> HttpResponse:
    return HttpResponse(await services.read_metrics(), content_type=CONTENT_TYPE)


@operation("GET", docs=schema.METRICS, permission=None, content_type="text/plain")
async def public_metrics(call: OperationCall[None]) -> HttpResponse:
    return HttpResponse(await services.read_metrics(), content_type=CONTENT_TYPE)


@csrf_exempt
async def metrics(request: HttpRequest, **path_parameters: Any) -> HttpResponseBase:
    return await (public_metrics if settings.METRICS_PUBLIC else private_metrics)(request, **path_parameters)


metrics.operations = private_metrics.operations  # type: ignore[attr-defined]


@operation(
    "POST",
    docs=schema.CUSTOM_METRIC,
    permission=Permission.WRITE_METRICS,
    body=CustomMetricRequest,
    response=CustomMetricResponse,
)
async def custom_metric(call: OperationCall[CustomMetricRequest]) -> CustomMetricResponse:
    body = call.body
    value = await services.record_custom(name=body.name, kind=body.type, value=body.value, labels=body.labels)
    return CustomMetricResponse(status="ok", name=body.name, type=body.type, value=value, labels=body.labels)
