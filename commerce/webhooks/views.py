"""Views of /api/webhooks: a user's webhooks, and the deliveries to them."""

from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.webhooks import schema
from commerce.webhooks.filters import WebhookDeliveryFilters
from commerce.webhooks.serializers import (
    NewWebhookSerializer,
    WebhookChangesSerializer,
    WebhookDeliveryDetailSerializer,
    WebhookDeliverySerializer,
    WebhookSerializer,
    WebhookWithSecretSerializer,
)
from shared.accounts.permissions import HasRole
from shared.api.errors import ApiError, ValidationFailed
from shared.api.idempotency.store import IdempotencyMode
from shared.api.lists.pagination import ArrayPagination, PagePagination
from shared.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin
from shared.webhooks import deliveries, services
from shared.webhooks.models import Delivery, Endpoint


class WebhookErrorsMixin(ApiViewSet):
    """A ViewSet that answers 422 to a field that the services refuse, and 409 to what cannot be done now."""

    permission_classes = [HasRole.of(*settings.WEBHOOK_ROLES)]

    def handle_exception(self, exc: Exception) -> Response:
        return super().handle_exception(self._as_shop_error(exc) if isinstance(exc, ApiError) else exc)

    def _as_shop_error(self, error: ApiError) -> ApiError:
        problem, field = error.problem, (error.problem.details or {}).get("field")
        if problem.status != 400 or (field is None and self.action != "redeliver"):  # a body that cannot be read
            return error
        return ApiError(409, problem.message) if field in (None, "id") else ValidationFailed({field: [problem.message]})


@schema.describe_webhooks
class WebhookViewSet(CreateMixin, DestroyMixin, ListModelMixin, RetrieveModelMixin, WebhookErrorsMixin):
    """Webhooks of the signed-in user."""

    queryset = Endpoint.objects.all()
    lookup_field = "public_id"
    lookup_url_kwarg = "webhook_id"
    lookup_value_converter = "slug_or_id"
    serializer_class = WebhookSerializer
    request_serializer_classes = {"create": NewWebhookSerializer, "partial_update": WebhookChangesSerializer}
    response_serializer_classes = {"create": WebhookWithSecretSerializer, "rotate": WebhookWithSecretSerializer}
    pagination_class = ArrayPagination
    idempotency = IdempotencyMode.DISABLED  # responses contain secrets

    def get_queryset(self) -> "QuerySet[Endpoint]":
        return Endpoint.objects.for_user(self.request.auth.user)

    def perform_create(self, serializer: Any) -> Any:
        values = serializer.validated_data
        return services.create_endpoint(
            user=self.request.auth.user,
            url=values["url"],
            events=values["events"],
            is_enabled=values["enabled"],
            now=timezone.now(),
        )

    def partial_update(self, request: Request, webhook_id: str) -> Response:
        values = self.validated().validated_data
        endpoint = services.change_endpoint(
            user=request.auth.user,
            endpoint_id=webhook_id,
            url=values.get("url"),
            events=values.get("events"),
            is_enabled=values.get("enabled"),
            now=timezone.now(),
        )
        return Response(self.represent(endpoint))

    def perform_destroy(self, instance: Endpoint) -> None:
        services.delete_endpoint(user=self.request.auth.user, endpoint_id=instance.public_id)

    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, webhook_id: str) -> Response:
        now = timezone.now()
        return Response(self.represent(services.rotate_secret(user=request.auth.user, endpoint_id=webhook_id, now=now)))


@schema.describe_deliveries
class WebhookDeliveryViewSet(ListModelMixin, RetrieveModelMixin, WebhookErrorsMixin):
    """Deliveries to a webhook of the signed-in user."""

    queryset = Delivery.objects.all()
    lookup_field = "public_id"
    lookup_url_kwarg = "delivery_id"
    lookup_value_converter = "slug_or_id"
    serializer_class = WebhookDeliverySerializer
    response_serializer_classes = {"retrieve": WebhookDeliveryDetailSerializer}
    filterset_class = WebhookDeliveryFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Delivery]":
        endpoint = services.find_endpoint(user=self.request.auth.user, endpoint_id=self.kwargs["webhook_id"])
        found = endpoint.deliveries.order_by("-pk")
        return found.prefetch_related("attempt_log") if self.action == "retrieve" else found.defer("body")

    @action(detail=True, methods=["post"])
    def redeliver(self, request: Request, webhook_id: str, delivery_id: str) -> Response:
        user, now = request.auth.user, timezone.now()
        delivery = deliveries.redeliver_own(user=user, endpoint_id=webhook_id, delivery_id=delivery_id, now=now)
        return Response(self.represent(delivery))
