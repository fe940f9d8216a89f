"""Writes to orders and refunds. A change to any order locks its whole tree first, from the parent on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from commerce.catalog.stock import OutOfStock, StockLine, take_stock
from commerce.orders.models import Order, OrderLine, Refund
from commerce.orders.order_tree import LockedOrderTree
from commerce.orders.pricing import PricedLine, RequestedLine, price_lines, sales_tax
from commerce.orders.statuses import TRANSITIONS
from commerce.shops.services import increment_order_counts
from commerce.webhooks.events import announce_new_orders
from shared import transactions
from shared.accounts.models import User
from shared.api.errors import ApiError, NotFound, ValidationFailed
from shared.api.money import to_major

PARENT_STATUS_DERIVED = "The status of this order follows from the orders of its shops: change those."


@dataclass(frozen=True, kw_only=True)
class DeliveryDetails:
    """Contact, addresses and payment method of an order, stored as the customer sent them."""

    customer_contact: str = ""
    billing_address: Mapping[str, Any] | None = None
    shipping_address: Mapping[str, Any] | None = None
    payment_gateway: str = "CASH_ON_DELIVERY"


def place_order(*, customer: User, lines: Sequence[RequestedLine], delivery: DeliveryDetails, now: datetime) -> Order:
    """Take the stock and create a parent order with a child for each shop, all or nothing.

    Return the parent, with what its response shows. Raises ValidationFailed, by line, for products that are not for
    sale or out of stock, and for several currencies.
    """
    with transactions.read_snapshot():  # prices of one moment, read before the write lock is taken
        priced = price_lines(lines)
    for position, line in enumerate(priced):
        if line.quantity > (line.variation or line.product).quantity:
            raise OutOfStock(position)  # known without a lock
    amount, tax = sum(line.subtotal for line in priced), sales_tax(priced)
    fee: int = settings.DELIVERY_FEE
    common = _common_fields(customer, priced[0].product.currency, delivery, now)
    stock_lines = [
        StockLine(product_id=line.product_id, variation_id=line.variation_id, quantity=line.quantity) for line in lines
    ]
    with transaction.atomic():
        parent = Order.objects.create(
            amount=amount,
            sales_tax=tax,
            delivery_fee=fee,
            total=amount + tax + fee,
            paid_total=amount + tax + fee,
            **common,
        )
        children = _create_children(parent, priced, common)
        announce_new_orders(children, now=now)
        placed = Order.objects.for_response().get(pk=parent.pk)
        # Last, since until the commit all other orders of these products and shops wait.
        take_stock(lines=stock_lines)
        increment_order_counts(shop_ids=[child.shop_id for child in children if child.shop_id])
    return placed


@transaction.atomic
def change_order_status(*, order_id: int, status: str, actor: User, now: datetime) -> Order:
    """Set the status of one shop's order, and that of its parent which follows; return the order.

    An order that is cancelled or failed returns its stock. Setting the present status again does nothing. Raises
    NotFound for an order that the actor does not fulfil, and ValidationFailed for a parent and for a transition that
    is not in `statuses.TRANSITIONS`.
    """
    order = Order.objects.for_user(actor).filter(pk=order_id).first()
    if order is None or (not order.is_parent and not Order.objects.managed_by(actor).filter(pk=order_id).exists()):
        raise NotFound
    if order.is_parent:
        raise ValidationFailed({"order_status": [PARENT_STATUS_DERIVED]})
    tree = LockedOrderTree.lock(order)
    child = tree.get(order_id)
    if status != child.order_status:
        _require_transition(child.order_status, status)
        tree.set_status([child], status, now)
    return child


def get_own_order(*, customer: User, order_id: int) -> Order:
    """Return an order that this customer placed. Raises NotFound."""
    order = Order.objects.filter(customer=customer, pk=order_id).first()
    if order is None:
        raise NotFound
    return order


@transaction.atomic
def request_refund(*, customer: User, order_id: int, amount: int | None, reason: str, now: datetime) -> Refund:
    """Request a refund from the shop for a child order, or from the platform for a parent.

    `amount` None means all that is left. Raises NotFound for an order of another customer, ApiError 409 while another
    request for the order is open, and ValidationFailed for more than is left.
    """
    order = get_own_order(customer=customer, order_id=order_id)
    refundable = LockedOrderTree.lock(order).refundable_amount(order_id)
    requested = refundable if amount is None else amount
    _require_refundable(requested, refundable, order.currency, field="amount")
    try:
        with transaction.atomic():
            return Refund.objects.create(
                order=order,
                customer=customer,
                shop_id=order.shop_id,
                amount=requested,
                reason=reason,
                created_at=now,
                updated_at=now,
            )
    except IntegrityError:
        raise ApiError(409, "This order has an open refund request: wait until it is decided.") from None


@transaction.atomic
def decide_refund(*, refund_id: int, status: str, actor: User, now: datetime) -> Refund:
    """Approve or reject a requested refund.

    An order whose whole payment is refunded becomes refunded, a parent with all its children, whoever refunded how
    much of it. Raises NotFound for a refund that the actor does not decide, and ValidationFailed if it is decided
    already or if less than its amount is left.
    """
    refund = Refund.objects.managed_by(actor).select_related("order").filter(pk=refund_id).first()
    if refund is None:
        raise NotFound
    tree = LockedOrderTree.lock(refund.order)
    undecided = Refund.objects.filter(pk=refund.pk, status=Refund.Status.REQUESTED)
    if not undecided.update(status=status, updated_at=now):
        raise ValidationFailed({"status": ["This refund is decided already."]})
    if status == Refund.Status.APPROVED:
        refundable = tree.refundable_amount(refund.order_id)
        _require_refundable(refund.amount, refundable, refund.order.currency, field="status")
        tree.apply_refund(refund.order_id, refund.amount, now)
    refund.refresh_from_db()
    return refund


def _common_fields(customer: User, currency: str, delivery: DeliveryDetails, now: datetime) -> dict[str, Any]:
    """Return the fields that a parent and its children have in common."""
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


def _create_children(parent: Order, priced: Sequence[PricedLine], common: Mapping[str, Any]) -> list[Order]:
    children: list[Order] = []
    order_lines: list[OrderLine] = []
    for shop_id, group in groupby(sorted(priced, key=_shop_id), key=_shop_id):
        shop_lines = list(group)
        amount = sum(line.subtotal for line in shop_lines)
        child = Order.objects.create(
            parent=parent, shop_id=shop_id, amount=amount, total=amount, paid_total=amount, **common
        )
        children.append(child)
        order_lines += [_order_line(child, line) for line in shop_lines]
    OrderLine.objects.bulk_create(order_lines)
    return children


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
        raise ValidationFailed({"order_status": ["An order becomes refunded when its whole payment is refunded."]})
    allowed = [status for status in Order.Status.values if status in TRANSITIONS[old]]
    expected = f"Send one of: {', '.join(allowed)}." if allowed else "It can no longer be changed."
    raise ValidationFailed({"order_status": [f"This order is {old} and cannot become {new}. {expected}"]})


def _require_refundable(amount: int, refundable: int, currency: str, *, field: str) -> None:
    if refundable == 0:
        raise ValidationFailed({field: ["The whole payment of this order is refunded already."]})
    if amount > refundable:
        message = f"At most {to_major(refundable, currency)} {currency} of this order can be refunded."
        raise ValidationFailed({field: [message]})
