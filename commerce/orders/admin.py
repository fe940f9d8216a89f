"""Admin pages of orders and refunds. Actions change statuses and decide refunds; nothing is edited by hand."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import PositiveBigIntegerField, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from commerce.catalog.admin_money import money_column
from commerce.orders import services
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.statuses import TRANSITIONS
from shared.api.admin.base import LargeTableAdmin, ReadOnlyAdminMixin
from shared.api.errors import ApiError

SETTABLE_STATUSES = [
    status for status in Order.Status.values if any(status in targets for targets in TRANSITIONS.values())
]
# In minor units, which `money_column` shows in major units. The model has no other big integers.
MONEY_FIELDS = [field.name for field in Order._meta.concrete_fields if isinstance(field, PositiveBigIntegerField)]
MONEY_COLUMNS = [money_column(name) for name in MONEY_FIELDS]


class OrderLineInline(ReadOnlyAdminMixin, TabularInline):
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


class ChildOrderInline(ReadOnlyAdminMixin, TabularInline):
    model = Order
    verbose_name = "Order of a shop"
    verbose_name_plural = "Orders of the shops"
    fields = readonly_fields = ["shop", "order_status", money_column("total"), money_column("refunded_total")]
    extra = 0
    show_change_link = True

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Order]":
        rows: QuerySet[Order] = super().get_queryset(request)
        return rows.select_related("shop")


class RefundInline(ReadOnlyAdminMixin, TabularInline):
    model = Refund
    fields = readonly_fields = [money_column("amount", currency="order__currency"), "status", "reason", "created_at"]
    extra = 0
    show_change_link = True

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Refund]":
        rows: QuerySet[Refund] = super().get_queryset(request)
        return rows.select_related("order")


def _status_action(status: str) -> Callable[..., None]:
    @admin.action(description=f"Set status: {status}")
    def set_status(page: "OrderAdmin", request: HttpRequest, orders: "QuerySet[Order]") -> None:
        for order in orders:
            try:
                services.change_order_status(
                    order_id=order.pk, status=status, actor=request.user, now=timezone.now()  # type: ignore[arg-type]
                )  # fmt: skip
            except ApiError as error:
                page.message_user(request, f"{order}: {error}", messages.ERROR)

    set_status.__name__ = f"set_status_{status.replace('-', '_')}"
    return set_status


@admin.register(Order)
class OrderAdmin(ReadOnlyAdminMixin, LargeTableAdmin):
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
    search_filters = {"customer__email": Q(parent=None)}  # the customer's whole orders
    search_help_text = "Start of a tracking number, of the customer's e-mail address or of a shop's name, or an id"
    fieldsets = [
        (None, {"fields": ["tracking_number", "order_status", "customer", "shop", "parent"]}),
        ("Money", {"fields": [*MONEY_COLUMNS, "payment_gateway"]}),
        ("Delivery", {"fields": ["customer_contact", "billing_address", "shipping_address"]}),
        ("Dates", {"fields": ["created_at", "updated_at"]}),
    ]
    readonly_fields = MONEY_COLUMNS
    actions = [_status_action(status) for status in SETTABLE_STATUSES]

    def get_ordering(self, request: HttpRequest) -> list[str]:
        """Return the order of the index that serves the list: any other would sort all rows of a shop."""
        return ["-created_at", "-id"] if "shop__id__exact" in request.GET else ["-id"]

    def get_inlines(self, request: HttpRequest, obj: Order | None) -> list[Any]:
        return [ChildOrderInline, RefundInline] if obj and obj.is_parent else [OrderLineInline, RefundInline]


@admin.register(Refund)
class RefundAdmin(ReadOnlyAdminMixin, LargeTableAdmin):
    list_display = ["id", "order", "shop", money_column("amount", currency="order__currency"), "status", "created_at"]
    list_select_related = ["order", "shop"]
    list_filter = ["status", ["shop", AutocompleteSelectFilter]]
    search_fields = ["order__tracking_number", "customer__email", "shop__slug"]
    search_help_text = "Start of an order's tracking number or of the customer's e-mail address, or a refund's id"
    fields = ["order", "shop", money_column("amount", currency="order__currency"), "status", "reason", "created_at"]
    readonly_fields = [money_column("amount", currency="order__currency")]
    actions = ["approve", "reject"]

    @admin.action(description="Approve: refund the amount")
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
            except ApiError as error:
                self.message_user(request, f"{refund}: {error}", messages.ERROR)
