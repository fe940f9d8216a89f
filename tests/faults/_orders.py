"""Place orders from several threads and print how many were placed, and the errors of the others, as JSON.

Usage: `python -m tests.faults._orders ORDERS THREADS`, with the orders of each thread, and the settings in the
environment. An order reads products, customer and prices, and then writes stock, orders, lines and shops.
"""

import json
import sys
import threading
from collections import Counter

import django

django.setup()

from django.db import close_old_connections  # noqa: E402 - needs the apps loaded
from django.utils import timezone  # noqa: E402

from commerce.catalog.models import Product  # noqa: E402
from commerce.orders.pricing import RequestedLine  # noqa: E402
from commerce.orders.services import DeliveryDetails, place_order  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.accounts.roles import Role  # noqa: E402


def place_orders(count: int, outcomes: Counter[str]) -> None:
    customer = User.objects.filter(role=Role.CUSTOMER)[0]
    product = Product.objects.public().filter(product_type=Product.Kind.SIMPLE).order_by("pk")[0]
    lines = [RequestedLine(product_id=product.pk, quantity=1)]
    for _ in range(count):
        try:
            place_order(customer=customer, lines=lines, delivery=DeliveryDetails(), now=timezone.now())
            outcomes["placed"] += 1
        except Exception as error:  # an exception would end the thread unnoticed
            outcomes[f"{type(error).__name__}: {error}"] += 1
        finally:
            close_old_connections()  # as Django does after each request


def main() -> None:
    orders, threads = int(sys.argv[1]), int(sys.argv[2])
    outcomes: list[Counter[str]] = [Counter() for _ in range(threads)]
    running = [threading.Thread(target=place_orders, args=(orders, counter)) for counter in outcomes]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    print(json.dumps(sum(outcomes, Counter())))


if __name__ == "__main__":
    main()
