"""Orders and refunds, for the people who run the platform: to be read, moved on and decided, never rewritten."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from commerce.config.admin_money import money_column
from commerce.orders import services
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.statuses import TRANSITIONS
from shared.api.errors import ApiError
from shared.api.fast_admin import FastAdmin

REACHABLE = [status for status in Order.Status.values if any(status in onward for onward in TRANSITIONS.values())]
MONEY = ["amount", "sales_tax", "delivery_fee", "discount", "total", "paid_total", "refunded_total"]
SHOWN_MONEY = [money_column(name) for name in MONEY]


class ToBeRead:
    """No form: what is here is written by services."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class OrderLineInline(ToBeRead, TabularInline):
    model = OrderLine
    fields = readonly_fields = [
        "product",
        "variation",
        "quantity",
        money_column("unit_price", currency="order__currency"),
        money_column("subtotal", currency="order__currency"),
    ]
    extra = 0

    def get_queryset(self, request: HttpRequest) -> "QuerySet[OrderLine]":
        rows: QuerySet[OrderLine] = super().get_queryset(request)
        return rows.select_related("order", "product", "variation")


class PartInline(ToBeRead, TabularInline):
    model = Order
    verbose_name = "Part of a shop"
    verbose_name_plural = "Parts of the shops"
    fields = readonly_fields = ["shop", "order_status", money_column("total"), money_column("refunded_total")]
    extra = 0
    show_change_link = True

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Order]":
        rows: QuerySet[Order] = super().get_queryset(request)
        return rows.select_related("shop")


class RefundInline(ToBeRead, TabularInline):
    model = Refund
    fields = readonly_fields = [money_column("amount", currency="order__currency"), "status", "reason", "created_at"]
    extra = 0
    show_change_link = True

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Refund]":
        rows: QuerySet[Refund] = super().get_queryset(request)
        return rows.select_related("order")


def _moving_to(status: str) -> Callable[..., None]:
    @admin.action(description=f"Move on: {status}")
    def move(page: "OrderAdmin", request: HttpRequest, orders: "QuerySet[Order]") -> None:
        for order in orders:
            try:
                services.change_order_status(
                    order_id=order.pk, status=status, actor=request.user, now=timezone.now()  # type: ignore[arg-type]
                )  # fmt: skip
            except ApiError as refusal:
                page.message_user(request, f"{order}: {refusal}", messages.ERROR)

    move.__name__ = f"move_to_{status.replace('-', '_')}"
    return move


@admin.register(Order)
class OrderAdmin(ToBeRead, FastAdmin):
    list_display = [
        "tracking_number",
        "customer",
        "shop",
        "order_status",
        money_column("total"),
        money_column("refunded_total", description="Refunded"),
        "created_at",
    ]
    list_select_related = ["customer", "shop"]
    list_filter = ["order_status", ["parent", admin.EmptyFieldListFilter], ["shop", AutocompleteSelectFilter]]
    search_fields = ["tracking_number", "customer__email", "shop__slug"]
    search_within = {"customer__email": Q(parent=None)}  # what the customer paid, rather than its parts
    search_help_text = "The beginning of a tracking number, of the customer's e-mail or of a shop's name, or an id"
    fieldsets = [
        (None, {"fields": ["tracking_number", "order_status", "customer", "shop", "parent"]}),
        ("Money", {"fields": [*SHOWN_MONEY, "payment_gateway"]}),
        ("Delivery", {"fields": ["customer_contact", "billing_address", "shipping_address"]}),
        ("Dates", {"fields": ["created_at", "updated_at"]}),
    ]
    readonly_fields = SHOWN_MONEY
    actions = [_moving_to(status) for status in REACHABLE]

    def get_ordering(self, request: HttpRequest) -> list[str]:
        """Of one shop as its index has them: by any other order all of its rows would have to be sorted."""
        return ["-created_at", "-id"] if "shop__id__exact" in request.GET else ["-id"]

    def get_inlines(self, request: HttpRequest, obj: Order | None) -> list[Any]:
        return [PartInline, RefundInline] if obj and obj.is_parent else [OrderLineInline, RefundInline]


@admin.register(Refund)
class RefundAdmin(ToBeRead, FastAdmin):
    list_display = ["id", "order", "shop", money_column("amount", currency="order__currency"), "status", "created_at"]
    list_select_related = ["order", "shop"]
    list_filter = ["status", ["shop", AutocompleteSelectFilter]]
    search_fields = ["order__tracking_number", "customer__email", "shop__slug"]
    search_help_text = "The beginning of an order's tracking number or of the customer's e-mail, or a refund's id"
    fields = ["order", "shop", money_column("amount", currency="order__currency"), "status", "reason", "created_at"]
    readonly_fields = [money_column("amount", currency="order__currency")]
    actions = ["approve", "reject"]

    @admin.action(description="Approve: give the money back")
    def approve(self, request: HttpRequest, refunds: "QuerySet[Refund]") -> None:
        self._decide(request, refunds, Refund.Status.APPROVED)

    @admin.action(description="Reject")
    def reject(self, request: HttpRequest, refunds: "QuerySet[Refund]") -> None:
        self._decide(request, refunds, Refund.Status.REJECTED)

    def _decide(self, request: HttpRequest, refunds: "QuerySet[Refund]", status: str) -> None:
        for refund in refunds:
            try:
                services.decide_refund(
                    refund_id=refund.pk, status=status, actor=request.user, now=timezone.now()  # type: ignore[arg-type]
                )  # fmt: skip
            except ApiError as refusal:
                self.message_user(request, f"{refund}: {refusal}", messages.ERROR)
