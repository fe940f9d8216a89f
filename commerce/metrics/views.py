"""View of the metrics."""

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from commerce.metrics.services import read_metrics
from shared.accounts.permissions import HasPermission
from shared.observability.metrics import CONTENT_TYPE

CanReadMetrics = HasPermission.of("read_metrics")


class MetricsView(APIView):
    """Metrics for users with the permission `read_metrics`, or for everybody if STOA_METRICS_PUBLIC is true."""

    def get_permissions(self) -> Any:
        return [AllowAny()] if settings.METRICS_PUBLIC else [CanReadMetrics()]

    def get_authenticators(self) -> Any:
        return [] if settings.METRICS_PUBLIC else super().get_authenticators()

    @extend_schema(exclude=True)  # for operators, not for clients of the API
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(read_metrics(now=timezone.now()), content_type=CONTENT_TYPE)
