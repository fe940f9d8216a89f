"""Orders: placed and seen by customers, fulfilled by the people of the shops. Refunds: asked for, and decided."""

from typing import Any

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.orders import services
from commerce.orders.filters import OrderFilters, RefundFilters
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.serializers import (
    NewOrderSerializer,
    NewRefundSerializer,
    OrderSerializer,
    OrderStatusSerializer,
    RefundDecisionSerializer,
    RefundedOrderIdSerializer,
    RefundSerializer,
)
from shared.accounts.permissions import HasRole, ReadOnly, asker
from shared.accounts.roles import Role
from shared.api.pagination import PagedList
from shared.api.query import whole_number

SIGNED_IN = HasRole.of(*Role)
SHOP_PEOPLE = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")
WHO_DECIDES = HasRole.of("STORE_OWNER", "SUPER_ADMIN")


def with_lines(orders: "QuerySet[Order]") -> "QuerySet[Order]":
    """All that a record shows without `with`, in four queries."""
    lines = OrderLine.objects.select_related("product__image").order_by("id")
    children = Prefetch("children", Order.objects.order_by("id"))
    return orders.prefetch_related(children, Prefetch("lines", lines), Prefetch("children__lines", lines))


def named_order(orders: "QuerySet[Order]", key: str) -> Order:
    """The one with this id or tracking number. Raises Http404."""
    number = whole_number(key)
    return get_object_or_404(orders, tracking_number=key) if number is None else get_object_or_404(orders, pk=number)


def asked_refunds(request: Request) -> "QuerySet[Refund]":
    """The refunds that whoever asks may see."""
    user = asker(request)
    return Refund.objects.none() if user is None else Refund.objects.for_user(user).select_related("order")


@extend_schema_view(get=extend_schema(operation_id="orders", tags=["Orders"], summary="List orders"))
class OrderListView(ListAPIView[Order]):
    """What you bought, newest first; a super admin gets everybody's. With `shop_id`, the people of that shop get the
    parts that it delivers."""

    permission_classes = [SIGNED_IN]
    serializer_class = OrderSerializer
    filterset_class = OrderFilters
    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[Order]":
        user = asker(self.request)
        if user is None:
            return Order.objects.none()
        if self.request.query_params.get("shop_id"):
            return with_lines(Order.objects.managed_by(user)).order_by("-created_at", "-id")
        if user.role == Role.SUPER_ADMIN:
            return with_lines(Order.objects.filter(parent=None)).order_by("-id")
        return with_lines(Order.objects.of_customer(user)).order_by("-created_at", "-id")

    @extend_schema(
        operation_id="place_order",
        tags=["Orders"],
        summary="Place an order",
        request=NewOrderSerializer,
        responses={201: OrderSerializer},
    )
    def post(self, request: Request) -> Response:
        """At today's prices, and only if all of it is in stock. Answers the whole order, with a part for each shop."""
        body = NewOrderSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        order = services.place_order(
            customer=request.auth.user, lines=body.lines(), delivery=body.delivery(), now=timezone.now()
        )
        return Response(self.get_serializer(with_lines(Order.objects.all()).get(pk=order.pk)).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="order", tags=["Orders"], summary="Read an order"))
class OrderView(RetrieveAPIView[Order]):
    """One of your orders, or of the shops that you work in, by id or tracking number."""

    permission_classes = [(SIGNED_IN & ReadOnly) | SHOP_PEOPLE]
    serializer_class = OrderSerializer
    filterset_class = OrderFilters
    lookup_url_kwarg = "key"

    def get_queryset(self) -> "QuerySet[Order]":
        user = asker(self.request)
        return Order.objects.none() if user is None else with_lines(Order.objects.for_user(user))

    def get_object(self) -> Order:
        return named_order(self.filter_queryset(self.get_queryset()), self.kwargs["key"])

    @extend_schema(
        operation_id="change_order_status",
        tags=["Orders"],
        summary="Move a shop's order on",
        request=OrderStatusSerializer,
        responses=OrderSerializer,
    )
    def put(self, request: Request, **path: Any) -> Response:
        """By the people of its shop. The customer's whole order follows its parts."""
        actor = request.auth.user
        order = named_order(Order.objects.for_user(actor), self.kwargs["key"])
        body = OrderStatusSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        status = body.validated_data["order_status"]
        services.change_order_status(order_id=order.pk, status=status, actor=actor, now=timezone.now())
        return Response(self.get_serializer(self.get_object()).data)


@extend_schema_view(get=extend_schema(operation_id="refunds", tags=["Refunds"], summary="List refunds"))
class RefundListView(ListAPIView[Refund]):
    """What you asked for, and what is asked of your shops, newest first; a super admin gets everything."""

    permission_classes = [SIGNED_IN]
    serializer_class = RefundSerializer
    filterset_class = RefundFilters
    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[Refund]":
        return asked_refunds(self.request).order_by("-id")

    @extend_schema(
        operation_id="request_refund",
        tags=["Refunds"],
        summary="Ask for money back",
        request=NewRefundSerializer,
        responses={201: RefundSerializer},
    )
    def post(self, request: Request) -> Response:
        """For one of your orders: of the shop for its part, of the platform for a whole order."""
        named = RefundedOrderIdSerializer(data=request.data)
        named.is_valid(raise_exception=True)
        order = services.find_own_order(customer=request.auth.user, order_id=named.validated_data["order_id"])
        body = NewRefundSerializer(order, data=request.data)
        body.is_valid(raise_exception=True)
        refund = services.request_refund(
            customer=request.auth.user,
            order_id=order.pk,
            amount=body.validated_data.get("amount"),
            reason=body.validated_data.get("reason", ""),
            now=timezone.now(),
        )
        return Response(self.get_serializer(refund).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="refund", tags=["Refunds"], summary="Read a refund"))
class RefundView(RetrieveAPIView[Refund]):
    """One of the refunds in your list."""

    permission_classes = [(SIGNED_IN & ReadOnly) | WHO_DECIDES]
    serializer_class = RefundSerializer
    filterset_class = RefundFilters

    def get_queryset(self) -> "QuerySet[Refund]":
        return asked_refunds(self.request)

    @extend_schema(
        operation_id="decide_refund",
        tags=["Refunds"],
        summary="Approve or reject a refund",
        request=RefundDecisionSerializer,
        responses=RefundSerializer,
    )
    def put(self, request: Request, **path: Any) -> Response:
        """By the shop's owner, or for a whole order by a super admin. When all that was paid is given back, the order
        becomes refunded, a whole order with all its parts, and its goods are in stock again."""
        body = RefundDecisionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        services.decide_refund(
            refund_id=self.kwargs["pk"], **body.validated_data, actor=request.auth.user, now=timezone.now()
        )
        return Response(self.get_serializer(self.get_object()).data)
