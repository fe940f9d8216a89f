"""Views of orders and refunds."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.orders import schema, services
from commerce.orders.filters import OrderFilters, RefundFilters
from commerce.orders.models import Order, Refund
from commerce.orders.serializers import (
    NewOrderSerializer,
    NewRefundSerializer,
    OrderSerializer,
    OrderStatusSerializer,
    RefundDecisionSerializer,
    RefundedOrderIdSerializer,
    RefundSerializer,
)
from shared.accounts.permissions import HasRole, IsSignedIn, current_user
from shared.accounts.roles import Role
from shared.api.errors import NotFound
from shared.api.lists.pagination import PagePagination
from shared.api.viewsets import ApiViewSet, CreateMixin, SlugOrIdLookupMixin, UpdateMixin


@extend_schema(exclude=True)
class NoPaymentView(APIView):
    """Path of payments in existing storefronts: 404, since the shop takes none.

    As a path of an order it would be 403, at which such storefronts sign their user out.
    """

    permission_classes = [AllowAny]

    def post(self, request: Request) -> Response:
        raise NotFound


class OrderPagination(PagePagination):
    """Pages of orders, which have up to a hundred lines each."""

    is_limited_by_size = True


@schema.describe_orders
class OrderViewSet(SlugOrIdLookupMixin, CreateMixin, UpdateMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Orders: placed and read by customers, read and fulfilled by the staff of the shops."""

    queryset = Order.objects.all()
    permission_classes = [IsSignedIn]
    action_permission_classes = {"update": [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]}
    serializer_class = OrderSerializer
    request_serializer_classes = {"create": NewOrderSerializer, "update": OrderStatusSerializer}
    filterset_class = OrderFilters
    pagination_class = OrderPagination
    slug_field = "tracking_number"

    def get_queryset(self) -> "QuerySet[Order]":
        user = current_user(self.request)
        if user is None:
            return Order.objects.none()
        if self.detail:
            orders = Order.objects.for_user(user)
            return orders if self.action == "update" else orders.for_response()
        if self.request.query_params.get("shop_id"):
            return Order.objects.managed_by(user).for_response().order_by("-created_at", "-id")
        if user.role == Role.SUPER_ADMIN:
            return Order.objects.filter(parent=None).for_response().order_by("-id")
        return Order.objects.of_customer(user).for_response().order_by("-created_at", "-id")

    def perform_create(self, serializer: NewOrderSerializer) -> Order:
        return services.place_order(
            customer=self.request.auth.user,
            lines=serializer.lines(),
            delivery=serializer.delivery(),
            now=timezone.now(),
        )

    def perform_update(self, serializer: Any) -> Order:
        order_id, status = serializer.instance.pk, serializer.validated_data["order_status"]
        services.change_order_status(order_id=order_id, status=status, actor=self.request.auth.user, now=timezone.now())
        return Order.objects.for_response().get(pk=order_id)


@schema.describe_refunds
class RefundViewSet(CreateMixin, UpdateMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Refunds: requested by customers, decided by shop owners and super admins."""

    queryset = Refund.objects.all()
    permission_classes = [IsSignedIn]
    action_permission_classes = {"update": [HasRole.of("STORE_OWNER", "SUPER_ADMIN")]}
    serializer_class = RefundSerializer
    request_serializer_classes = {"create": NewRefundSerializer, "update": RefundDecisionSerializer}
    filterset_class = RefundFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Refund]":
        user = current_user(self.request)
        if user is None:
            return Refund.objects.none()
        return Refund.objects.for_user(user).select_related("order").order_by("-id")

    def create(self, request: Request, **path: Any) -> Response:
        """Find the order before the body is validated: the amount is in the currency of the order."""
        body = RefundedOrderIdSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        order = services.get_own_order(customer=request.auth.user, order_id=body.validated_data["order_id"])
        refund = self.perform_create(self.validated(order))
        return Response(self.represent(refund), status=self.create_status_code)

    def perform_create(self, serializer: Any) -> Refund:
        values = serializer.validated_data
        return services.request_refund(
            customer=self.request.auth.user,
            order_id=serializer.instance.pk,
            amount=values.get("amount"),
            reason=values.get("reason", ""),
            now=timezone.now(),
        )

    def perform_update(self, serializer: Any) -> Refund:
        return services.decide_refund(
            refund_id=serializer.instance.pk,
            status=serializer.validated_data["status"],
            actor=self.request.auth.user,
            now=timezone.now(),
        )
