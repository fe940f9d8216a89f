"""Allowed filters, search fields, orders and relations of the lists of orders and refunds."""

from typing import ClassVar

from commerce.orders.models import Order, Refund
from commerce.orders.relations import load_variation_options
from shared.api.lists.filters import IntegerFilter, ListFilterSet
from shared.api.lists.relations import INCLUDED, LoadedRelation

ORDER_SEARCH_FIELDS = (
    "tracking_number", "order_status", "customer_contact", "payment_gateway", "shop_id", "parent_id",
)  # fmt: skip


class OrderFilters(ListFilterSet):
    search_fields = {
        **{name: name for name in ORDER_SEARCH_FIELDS},
        "customer.name": "customer__name",
        "shop.slug": "shop__slug",
    }
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "order_status", "total")}
    relations: ClassVar = {
        "shop": "shop__logo",
        "customer": INCLUDED,  # it and the products are always in the response; clients name them all the same
        "products": INCLUDED,
        "products.variation_options": LoadedRelation(load_variation_options),
        "status": INCLUDED,
        "children": "children",
        "children.shop": "children__shop__logo",
    }
    shop_id = IntegerFilter(help_text="Id of a shop that you own or work in: lists the orders that this shop delivers.")

    class Meta:
        model = Order
        fields: list[str] = []


class RefundFilters(ListFilterSet):
    search_fields = {
        "status": "status",
        "order_id": "order_id",
        "shop_id": "shop_id",
        "order.tracking_number": "order__tracking_number",
    }
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "amount", "status")}
    relations = {"order": "order", "shop": "shop__logo", "customer": "customer"}
    shop_id = IntegerFilter(help_text="Id of a shop.")
    order_id = IntegerFilter(help_text="Id of an order.")

    class Meta:
        model = Refund
        fields: list[str] = []
