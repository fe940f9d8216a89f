"""A parent order with its children as one locked unit: status changes, refunds and returned stock."""

from datetime import datetime

from django.db.models import Q

from commerce.catalog.stock import StockLine, return_stock
from commerce.orders.models import Order, OrderLine
from commerce.orders.statuses import STOCK_RETURNED, parent_status
from commerce.webhooks.events import announce_order_statuses


class LockedOrderTree:
    """A parent order and its children, with row locks until the transaction ends."""

    def __init__(self, parent: Order, children: list[Order]) -> None:
        self.parent, self.children = parent, children

    @classmethod
    def lock(cls, member: Order) -> "LockedOrderTree":
        """Lock the whole tree of `member`, the parent first."""
        root = member.parent_id or member.pk
        # NO KEY: PostgreSQL checks foreign keys to these rows at commit, while the other transaction holds stock.
        rows = Order.objects.select_for_update(no_key=True).filter(Q(pk=root) | Q(parent_id=root)).order_by("pk")
        parent, *children = rows
        return cls(parent, children)

    def get(self, order_id: int) -> Order:
        return next(order for order in (self.parent, *self.children) if order.pk == order_id)

    def refundable_amount(self, order_id: int) -> int:
        """Return what can still be refunded: for a child no more than for its parent, which counts all refunds."""
        return min(row.paid_total - row.refunded_total for row in (self.get(order_id), self.parent))

    def apply_refund(self, order_id: int, amount: int, now: datetime) -> None:
        """Add a refund to the order and its parent. An order that is refunded entirely becomes refunded."""
        order = self.get(order_id)
        for row in {order.pk: order, self.parent.pk: self.parent}.values():
            row.refunded_total += amount
            row.updated_at = now
            row.save(update_fields=["refunded_total", "updated_at"])
        refunded = next((self._leaves(row) for row in (self.parent, order) if row.refunded_total == row.paid_total), [])
        self.set_status(
            [child for child in refunded if child.order_status not in STOCK_RETURNED], Order.Status.REFUNDED, now
        )

    def set_status(self, children: list[Order], status: str, now: datetime) -> None:
        """Set the status of these children, and that of the parent which follows.

        Stock is returned once, since an order never leaves a status of STOCK_RETURNED. A parent whose children were
        deleted from the database keeps its status.
        """
        former = [child.order_status for child in children]
        for child in children:
            child.order_status, child.updated_at = status, now
            child.save(update_fields=["order_status", "updated_at"])
        statuses = {child.order_status for child in self.children}
        derived = parent_status(statuses) if statuses else self.parent.order_status
        if derived != self.parent.order_status:
            self.parent.order_status, self.parent.updated_at = derived, now
            self.parent.save(update_fields=["order_status", "updated_at"])
        if status in STOCK_RETURNED and children:
            _return_stock_of(children)
        announce_order_statuses(zip(children, former, strict=True), now=now)

    def _leaves(self, order: Order) -> list[Order]:
        return self.children if order.is_parent else [order]


def _return_stock_of(orders: list[Order]) -> None:
    lines = OrderLine.objects.filter(order__in=orders)
    return_stock(
        lines=[
            StockLine(product_id=line.product_id, variation_id=line.variation_id, quantity=line.quantity)
            for line in lines
        ]
    )
