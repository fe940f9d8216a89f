"""Allowed transitions between order statuses, and the status that a parent order derives from its children."""

from collections.abc import Collection, Mapping

from commerce.orders.models import Order

S = Order.Status

# Forward by any number of steps until complete, or out by cancelled or failed. An order that came back to the local
# facility goes out again. `refunded` is never chosen: an order becomes refunded when its whole payment is refunded.
TRANSITIONS: Mapping[str, frozenset[str]] = {
    S.PENDING: frozenset({S.PROCESSING, S.AT_LOCAL_FACILITY, S.OUT_FOR_DELIVERY, S.COMPLETE, S.CANCELLED, S.FAILED}),
    S.PROCESSING: frozenset({S.AT_LOCAL_FACILITY, S.OUT_FOR_DELIVERY, S.COMPLETE, S.CANCELLED, S.FAILED}),
    S.AT_LOCAL_FACILITY: frozenset({S.OUT_FOR_DELIVERY, S.COMPLETE, S.CANCELLED, S.FAILED}),
    S.OUT_FOR_DELIVERY: frozenset({S.AT_LOCAL_FACILITY, S.COMPLETE, S.CANCELLED, S.FAILED}),
    S.COMPLETE: frozenset(),
    S.CANCELLED: frozenset(),
    S.FAILED: frozenset(),
    S.REFUNDED: frozenset(),
}
# Statuses in which nothing was delivered or everything came back: the products are in stock again.
STOCK_RETURNED = frozenset({S.CANCELLED, S.FAILED, S.REFUNDED})

_IN_PROGRESS = (S.PENDING, S.PROCESSING, S.AT_LOCAL_FACILITY, S.OUT_FOR_DELIVERY, S.COMPLETE)
_ENDED = (S.REFUNDED, S.FAILED, S.CANCELLED)


def parent_status(children: Collection[str]) -> Order.Status:
    """Return the status of a parent order from the statuses of its children.

    It is that of the child furthest behind among those still in progress or complete; if there is none, refunded comes
    before failed before cancelled.
    """
    precedence = _IN_PROGRESS if any(status in _IN_PROGRESS for status in children) else _ENDED
    return next(status for status in precedence if status in children)
