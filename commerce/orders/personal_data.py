"""What orders keep about a person. The books need what was bought and paid; where it went they do not."""

from commerce.orders.models import Order, Refund
from shared.accounts.models import User
from shared.accounts.person_rules import blanked

Status = Order.Status
UNDER_WAY = (Status.PENDING, Status.PROCESSING, Status.AT_LOCAL_FACILITY, Status.OUT_FOR_DELIVERY)


def orders_under_way(user: User) -> str:
    numbers = Order.objects.filter(customer=user, parent=None, order_status__in=UNDER_WAY).values_list(
        "tracking_number", flat=True
    )
    return f"These orders are under way: {', '.join(numbers)}. Complete or cancel them first." if numbers else ""


def refunds_asked_for(user: User) -> str:
    asked = Refund.objects.filter(customer=user, status=Refund.Status.REQUESTED).count()
    return f"{asked} refunds that they asked for are not decided. Decide them first." if asked else ""


RULES = (
    blanked(Refund, "customer", reason=""),
    blanked(Order, "customer", customer_contact="", billing_address={}, shipping_address={}),
)
HINDRANCES = (orders_under_way, refunds_asked_for)
