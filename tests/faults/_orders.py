"""Places orders: `python -m tests.faults._orders ORDERS THREADS`, so many from each thread, with the settings in the
environment. An order reads products, customer and prices, and then writes stock, orders, lines and shops. Prints how
many were placed, and what went wrong with the others, as JSON.
"""

import json
import sys
import threading
from collections import Counter

import django

django.setup()

from django.db import close_old_connections  # noqa: E402 - what needs Django's apps comes after them
from django.utils import timezone  # noqa: E402

from commerce.catalog.models import Product  # noqa: E402
from commerce.orders.pricing import RequestedLine  # noqa: E402
from commerce.orders.services import DeliveryDetails, place_order  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.accounts.roles import Role  # noqa: E402


def place(count: int, told: Counter[str]) -> None:
    customer = User.objects.filter(role=Role.CUSTOMER)[0]
    product = Product.objects.public().filter(product_type=Product.Kind.SIMPLE).order_by("pk")[0]
    lines = [RequestedLine(product_id=product.pk, quantity=1)]
    for _ in range(count):
        try:
            place_order(customer=customer, lines=lines, delivery=DeliveryDetails(), now=timezone.now())
            told["placed"] += 1
        except Exception as error:  # a thread that ended in silence would tell nothing
            told[f"{type(error).__name__}: {error}"] += 1
        finally:
            close_old_connections()  # as after each request


def main() -> None:
    orders, threads = int(sys.argv[1]), int(sys.argv[2])
    each: list[Counter[str]] = [Counter() for _ in range(threads)]
    running = [threading.Thread(target=place, args=(orders, told)) for told in each]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    print(json.dumps(sum(each, Counter())))


if __name__ == "__main__":
    main()
