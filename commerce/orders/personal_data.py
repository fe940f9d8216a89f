"""Rules for exporting and erasing the personal data in orders.

Bookkeeping needs what was bought and paid; it does not need contacts and addresses.
"""

from commerce.orders.models import Order, Refund
from shared.accounts.models import User
from shared.personal_data import overwrite_rows

Status = Order.Status
STATUSES_IN_PROGRESS = (Status.PENDING, Status.PROCESSING, Status.AT_LOCAL_FACILITY, Status.OUT_FOR_DELIVERY)


def orders_in_progress_blocker(user: User) -> str:
    """Return why a customer with orders in progress cannot be erased, or an empty string."""
    orders = Order.objects.filter(customer=user, parent=None, order_status__in=STATUSES_IN_PROGRESS)
    numbers = orders.values_list("tracking_number", flat=True)
    return f"These orders are in progress: {', '.join(numbers)}. Complete or cancel them first." if numbers else ""


def open_refunds_blocker(user: User) -> str:
    """Return why a customer with undecided refunds cannot be erased, or an empty string."""
    count = Refund.objects.filter(customer=user, status=Refund.Status.REQUESTED).count()
    return f"{count} of their refund requests are not decided. Decide them first." if count else ""


RULES = (
    overwrite_rows(Refund, "customer", reason=""),
    overwrite_rows(Order, "customer", customer_contact="", billing_address={}, shipping_address={}),
)
ERASURE_BLOCKERS = (orders_in_progress_blocker, open_refunds_blocker)
