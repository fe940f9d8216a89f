"""What the lists of orders and refunds may be asked."""

from commerce.orders.models import Order, Refund
from shared.api.listing import ListFilters, WholeNumberFilter


class OrderFilters(ListFilters):
    search_fields = {
        "tracking_number": "tracking_number",
        "order_status": "order_status",
        "customer_contact": "customer_contact",
        "payment_gateway": "payment_gateway",
        "shop_id": "shop_id",
        "parent_id": "parent_id",
    }
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "order_status", "total")}
    relations = {
        "shop": "shop__logo",
        "customer": "customer",
        "products": "lines",  # there in any case, as clients ask for them by name
        "children": "children",
        "children.shop": "children__shop__logo",
    }
    shop_id = WholeNumberFilter(help_text="To the people of this shop: its own orders, a part of each customer's.")

    class Meta:
        model = Order
        fields: list[str] = []


class RefundFilters(ListFilters):
    search_fields = {
        "status": "status",
        "order_id": "order_id",
        "shop_id": "shop_id",
        "order.tracking_number": "order__tracking_number",
    }
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "amount", "status")}
    relations = {"order": "order", "shop": "shop__logo"}
    shop_id = WholeNumberFilter()
    order_id = WholeNumberFilter()

    class Meta:
        model = Refund
        fields: list[str] = []
