"""Create COUNT orders, questions and reports, and print the database bytes of each as JSON.

Usage: `python -m tests.benchmarks.growth._growth_shop COUNT`, with the settings in the environment.
"""

import json
import sys

import django

django.setup()

from django.utils import timezone  # noqa: E402 - what needs Django's apps comes after them

from commerce.analytics.aggregation.batches import aggregate_ledger  # noqa: E402
from commerce.analytics.services import ensure_triggers  # noqa: E402
from commerce.catalog.models import Product  # noqa: E402
from commerce.moderation.services import file_report  # noqa: E402
from commerce.orders.pricing import RequestedLine  # noqa: E402
from commerce.orders.services import DeliveryDetails, place_order  # noqa: E402
from commerce.reviews.models import Question  # noqa: E402
from commerce.reviews.services import ask_question  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.accounts.roles import Role  # noqa: E402
from tests.benchmarks.growth._growth_sizes import bytes_per_object  # noqa: E402

ADDRESS = {"street_address": "12 Harbour Lane", "city": "Cork", "zip": "T12 X8K2", "state": "Cork", "country": "IE"}
QUESTION = "Does the lamp come with a bulb, and can the shade be washed? I could not find it in the description."
REPORT = "This is advertising for another shop."


def place_orders(count: int) -> None:
    customer = User.objects.filter(role=Role.CUSTOMER)[0]
    wanted = Product.objects.public().filter(product_type=Product.Kind.SIMPLE).order_by("shop", "pk")[:2]
    Product.objects.filter(pk__in=[product.pk for product in wanted]).update(quantity=10 * count)
    lines = [RequestedLine(product_id=product.pk, quantity=1) for product in wanted]
    delivery = DeliveryDetails(customer_contact="+353 21 555 0100", billing_address=ADDRESS, shipping_address=ADDRESS)
    for _ in range(count):
        place_order(customer=customer, lines=lines, delivery=delivery, now=timezone.now())
    aggregate_ledger(now=timezone.now())


def ask(count: int) -> None:
    customer = User.objects.filter(role=Role.CUSTOMER)[0]
    product = Product.objects.public()[0].pk
    for _ in range(count):
        ask_question(user=customer, product_id=product, question=QUESTION, now=timezone.now())


def report(count: int) -> None:
    """Create reports of different questions, so that each is a case of its own."""
    user = User.objects.filter(role=Role.STAFF)[0]
    for question in Question.objects.order_by("-pk").values_list("pk", flat=True)[:count]:
        file_report(user=user, model_type="Question", model_id=question, message=REPORT, now=timezone.now())


if __name__ == "__main__":
    ensure_triggers()
    number = int(sys.argv[1])
    kinds = {"an order of two lines": place_orders, "a question": ask, "a report, with its case": report}
    print(json.dumps({name: bytes_per_object(make, number) for name, make in kinds.items()}))
