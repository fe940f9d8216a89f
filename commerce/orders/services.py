"""Every write to orders and refunds. Whatever changes a part of a tree locks the whole tree first, from the parent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q

from commerce.catalog.services import StockLine, return_stock, take_stock
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.pricing import PricedLine, WantedLine, price_lines, sales_tax
from commerce.orders.statuses import STOCK_RETURNED, TRANSITIONS, parent_status
from commerce.shops.services import count_orders
from shared.accounts.models import User
from shared.api import snapshots
from shared.api.errors import ApiError, ValidationFailed
from shared.api.money import to_major

PARENT_FOLLOWS = "This order follows the orders of its shops: change those."


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """Whom and where to, and how it is paid: kept with the order as the customer gave it."""

    customer_contact: str = ""
    billing_address: Mapping[str, Any] | None = None
    shipping_address: Mapping[str, Any] | None = None
    payment_gateway: str = "CASH_ON_DELIVERY"


def place_order(*, customer: User, lines: Sequence[WantedLine], delivery: Delivery, now: datetime) -> Order:
    """Takes the stock and makes a parent with a child a shop, all or nothing; answers the parent. Raises
    ValidationFailed, by line, for what is not for sale, out of stock, or in several currencies."""
    with snapshots.read():  # prices of one moment, before anybody has to wait for this order
        priced = price_lines(lines)
    amount, tax = sum(line.subtotal for line in priced), sales_tax(priced)
    fee: int = settings.DELIVERY_FEE
    common = _common_fields(customer, priced[0].product.currency, delivery, now)
    wanted = [
        StockLine(product_id=line.product_id, variation_id=line.variation_id, quantity=line.quantity) for line in lines
    ]
    with transaction.atomic():
        take_stock(lines=wanted)
        parent = Order.objects.create(
            amount=amount,
            sales_tax=tax,
            delivery_fee=fee,
            total=amount + tax + fee,
            paid_total=amount + tax + fee,
            **common,
        )
        _make_children(parent, priced, common)
    return parent


@transaction.atomic
def change_order_status(*, order_id: int, status: str, actor: User, now: datetime) -> Order:
    """Moves one shop's order on, and its parent with it; goods that will not be delivered go back into stock. To be in
    that state already is no error. Raises ApiError 404 for an order that `actor` does not fulfil, ValidationFailed for
    a parent and for a move that is not in `statuses.TRANSITIONS`."""
    found = Order.objects.for_user(actor).filter(pk=order_id).first()
    if found is None or (not found.is_parent and not Order.objects.managed_by(actor).filter(pk=order_id).exists()):
        raise ApiError(404, "You have no order with this id.")
    if found.is_parent:
        raise ValidationFailed({"order_status": [PARENT_FOLLOWS]})
    tree = _Tree.lock(found)
    child = tree.find(order_id)
    if status != child.order_status:
        _require_transition(child.order_status, status)
        tree.move([child], status, now)
    return child


def find_own_order(*, customer: User, order_id: int) -> Order:
    """An order that this customer placed. Raises ApiError 404 for any other, known or not."""
    order = Order.objects.filter(customer=customer, pk=order_id).first()
    if order is None:
        raise ApiError(404, "You have no order with this id.")
    return order


@transaction.atomic
def request_refund(*, customer: User, order_id: int, amount: int | None, reason: str, now: datetime) -> Refund:
    """Asks for money back, all that is left where `amount` is None: of the shop for a child, of the platform for a
    parent. Raises ApiError 404 for an order that is not the customer's, 409 while another request for it is open,
    ValidationFailed for more than is left."""
    found = find_own_order(customer=customer, order_id=order_id)
    left = _Tree.lock(found).refundable(order_id)
    wanted = left if amount is None else amount
    _require_left(wanted, left, found.currency, field="amount")
    try:
        with transaction.atomic():
            return Refund.objects.create(
                order=found,
                customer=customer,
                shop_id=found.shop_id,
                amount=wanted,
                reason=reason,
                created_at=now,
                updated_at=now,
            )
    except IntegrityError:
        raise ApiError(409, "A refund of this order is waiting for a decision: there is one at a time.") from None


@transaction.atomic
def decide_refund(*, refund_id: int, status: str, actor: User, now: datetime) -> Refund:
    """Approves or rejects a requested refund. An order whose whole payment is given back becomes refunded, a parent
    with all its parts, whoever gave how much of it. Raises ApiError 404 for a refund that is not `actor`'s to decide,
    ValidationFailed when it is decided already, or when less than its amount is left."""
    refund = Refund.objects.managed_by(actor).select_related("order").filter(pk=refund_id).first()
    if refund is None:
        raise ApiError(404, "You have no refund with this id to decide on.")
    tree = _Tree.lock(refund.order)
    waiting = Refund.objects.filter(pk=refund.pk, status=Refund.Status.REQUESTED)
    if not waiting.update(status=status, updated_at=now):
        raise ValidationFailed({"status": ["This refund is decided already."]})
    if status == Refund.Status.APPROVED:
        _require_left(refund.amount, tree.refundable(refund.order_id), refund.order.currency, field="status")
        tree.give_back(refund.order_id, refund.amount, now)
    refund.refresh_from_db()
    return refund


class _Tree:
    """A parent and its children, locked until the transaction ends."""

    def __init__(self, parent: Order, children: list[Order]) -> None:
        self.parent, self.children = parent, children

    @classmethod
    def lock(cls, member: Order) -> "_Tree":
        root = member.parent_id or member.pk
        # Not against the keys that rows elsewhere refer to: PostgreSQL checks those when they commit, holding stock.
        rows = Order.objects.select_for_update(no_key=True).filter(Q(pk=root) | Q(parent_id=root)).order_by("pk")
        parent, *children = rows
        return cls(parent, children)

    def find(self, order_id: int) -> Order:
        return next(order for order in (self.parent, *self.children) if order.pk == order_id)

    def refundable(self, order_id: int) -> int:
        """What is left to give back: of a child no more than of its parent, whose own refunds count for all."""
        order = self.find(order_id)
        return min(row.paid_total - row.refunded_total for row in (order, self.parent))

    def give_back(self, order_id: int, amount: int, now: datetime) -> None:
        order = self.find(order_id)
        for row in {order.pk: order, self.parent.pk: self.parent}.values():
            row.refunded_total += amount
            row.updated_at = now
            row.save(update_fields=["refunded_total", "updated_at"])
        over = next((self._parts(row) for row in (self.parent, order) if row.refunded_total == row.paid_total), [])
        self.move([child for child in over if child.order_status not in STOCK_RETURNED], Order.Status.REFUNDED, now)

    def _parts(self, order: Order) -> list[Order]:
        return self.children if order.is_parent else [order]

    def move(self, children: list[Order], status: str, now: datetime) -> None:
        """Brings these children, and with them the parent, to where they belong. Stock comes back once: no state of
        STOCK_RETURNED is ever left. A parent whose children somebody deleted from the database stays as it is."""
        for child in children:
            child.order_status, child.updated_at = status, now
            child.save(update_fields=["order_status", "updated_at"])
        statuses = {child.order_status for child in self.children}
        derived = parent_status(statuses) if statuses else self.parent.order_status
        if derived != self.parent.order_status:
            self.parent.order_status, self.parent.updated_at = derived, now
            self.parent.save(update_fields=["order_status", "updated_at"])
        if status in STOCK_RETURNED and children:
            return_stock(
                lines=[
                    StockLine(product_id=line.product_id, variation_id=line.variation_id, quantity=line.quantity)
                    for line in OrderLine.objects.filter(order__in=children)
                ]
            )


def _common_fields(customer: User, currency: str, delivery: Delivery, now: datetime) -> dict[str, Any]:
    """What a parent and its children have alike."""
    return {
        "customer": customer,
        "currency": currency,
        "customer_contact": delivery.customer_contact,
        "billing_address": dict(delivery.billing_address or {}),
        "shipping_address": dict(delivery.shipping_address or {}),
        "payment_gateway": delivery.payment_gateway,
        "created_at": now,
        "updated_at": now,
    }


def _make_children(parent: Order, priced: Sequence[PricedLine], common: Mapping[str, Any]) -> None:
    by_shop = groupby(sorted(priced, key=_shop_id), key=_shop_id)
    shop_ids: list[int] = []
    lines: list[OrderLine] = []
    for shop_id, group in by_shop:
        shop_ids.append(shop_id)
        of_shop = list(group)
        amount = sum(line.subtotal for line in of_shop)
        child = Order.objects.create(
            parent=parent, shop_id=shop_id, amount=amount, total=amount, paid_total=amount, **common
        )
        lines += [_order_line(child, line) for line in of_shop]
    OrderLine.objects.bulk_create(lines)
    count_orders(shop_ids=shop_ids)


def _shop_id(line: PricedLine) -> int:
    return line.product.shop_id


def _order_line(order: Order, line: PricedLine) -> OrderLine:
    return OrderLine(
        order=order,
        product=line.product,
        variation=line.variation,
        quantity=line.quantity,
        unit_price=line.unit_price,
        subtotal=line.subtotal,
    )


def _require_transition(old: str, new: str) -> None:
    if new in TRANSITIONS[old]:
        return
    if new == Order.Status.REFUNDED:
        raise ValidationFailed({"order_status": ["An order becomes refunded when a refund of all of it is approved."]})
    allowed = [status for status in Order.Status.values if status in TRANSITIONS[old]]
    text = (
        f"An order that is {old} can become {', '.join(allowed)}." if allowed else f"An order that is {old} stays so."
    )
    raise ValidationFailed({"order_status": [text]})


def _require_left(wanted: int, left: int, currency: str, *, field: str) -> None:
    if left == 0:
        raise ValidationFailed({field: ["All that was paid for this order is given back already."]})
    if wanted > left:
        raise ValidationFailed({field: [f"At most {to_major(left, currency)} {currency} are left to give back."]})
