"""Which state an order may go to from which, and what a parent's state is. Data and one pure function."""

from collections.abc import Collection, Mapping

from commerce.orders.models import Order

S = Order.Status

# Forward, by any number of steps, until it is complete; out of the way to it by cancelling or failing. What came back
# to the local facility goes out again. Refunded is nobody's choice: an order gets there when its money is given back.
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
# Nothing is delivered, or it came back: the goods are in stock again.
STOCK_RETURNED = frozenset({S.CANCELLED, S.FAILED, S.REFUNDED})

_PROGRESS = (S.PENDING, S.PROCESSING, S.AT_LOCAL_FACILITY, S.OUT_FOR_DELIVERY, S.COMPLETE)
_ENDINGS = (S.REFUNDED, S.FAILED, S.CANCELLED)


def parent_status(children: Collection[str]) -> Order.Status:
    """The state of an order that these are the parts of: that of the part that is furthest behind, of those that are
    still to be had; where none is, refunded before failed before cancelled."""
    order = _PROGRESS if any(status in _PROGRESS for status in children) else _ENDINGS
    return next(status for status in order if status in children)
