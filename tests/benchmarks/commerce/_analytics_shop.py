"""A marketplace of the benchmark's size in a database of its own, and the cost of its analytics. Prints JSON.

Each step is run by `analytics` in a process of its own, with DATABASE_URL and STOA_HOME set.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")
import django

django.setup()

from django.core.management import call_command  # noqa: E402 - needs the apps loaded
from django.db import connection, transaction  # noqa: E402
from django.db.models import Count, F, Sum  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

from commerce.analytics.aggregation.batches import aggregate_ledger  # noqa: E402
from commerce.analytics.aggregation.owner_groups import update_next_group  # noqa: E402
from commerce.analytics.aggregation.rebuild import rebuild_step  # noqa: E402
from commerce.analytics.aggregation.reconcile import find_differences  # noqa: E402
from commerce.analytics.ledger import triggers  # noqa: E402
from commerce.analytics.models import LedgerEntry  # noqa: E402
from commerce.catalog.models import Category, Product, ProductType  # noqa: E402
from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine, insert_orders  # noqa: E402
from commerce.orders.models import Order, OrderLine, Refund  # noqa: E402
from commerce.orders.pricing import RequestedLine  # noqa: E402
from commerce.orders.services import DeliveryDetails, place_order  # noqa: E402
from commerce.shops.models import Shop  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.accounts.services import create_api_key  # noqa: E402

SHOPS, PRODUCTS_EACH, CATEGORIES, OWNED, DAYS = 1000, 5, 20, 3, 1095
STATUSES = ["complete"] * 17 + ["refunded", "cancelled", "processing"]
EMAILS = {"platform": "admin@bench.example", "owner": "owner5@bench.example"}
DASHBOARD = "/admin/dashboard/"
READS = {
    "GET /analytics": "/api/analytics",
    "GET /analytics of 90 days": "/api/analytics?from={first}&to={last}&compare=previous",
    "GET /low-stock-products": "/api/low-stock-products",
    "GET /category-wise-product": "/api/category-wise-product",
    "GET /category-wise-product-sale": "/api/category-wise-product-sale",
    "GET /top-rate-product": "/api/top-rate-product",
}


def make_shop(orders: int) -> None:
    """Create 1000 shops, three for each owner, with `orders` orders over three years."""
    User.objects.create(email=EMAILS["platform"], role="SUPER_ADMIN")
    owners = User.objects.bulk_create(
        User(email=f"owner{number}@bench.example", role="STORE_OWNER") for number in range(SHOPS // OWNED + 1)
    )
    customers = User.objects.bulk_create(
        User(email=f"customer{number}@bench.example") for number in range(max(100, min(200_000, orders // 8)))
    )
    kind = ProductType.objects.create(name="Home", slug="home")
    shops = Shop.objects.bulk_create(
        Shop(owner=owners[number // OWNED], name=f"Shop {number}", slug=f"shop-{number}") for number in range(SHOPS)
    )
    products = Product.objects.bulk_create(
        Product(shop=shop, type=kind, name=f"Lamp {number}", slug=f"lamp-{shop.pk}-{number}", price=1250,
                status="publish", quantity=10**9 if number else shop.pk % 40)
        for shop in shops for number in range(PRODUCTS_EACH)
    )  # fmt: skip
    categories = [
        Category.objects.create(name=f"Category {n}", slug=f"category-{n}", type=kind) for n in range(CATEGORIES)
    ]
    through = Product.categories.through
    through.objects.bulk_create(
        through(product=product, category=categories[number % CATEGORIES]) for number, product in enumerate(products)
    )
    drawn = _orders(orders, products, [user.pk for user in customers], Random(7))
    for _ in insert_orders(drawn, random=Random(7)):
        pass


def _orders(count: int, products: list[Product], customer_ids: list[int], random: Random) -> Iterator[BulkOrder]:
    start = timezone.now() - timedelta(days=DAYS)
    for number in range(count):
        lines = [
            BulkOrderLine(product.shop_id, product.pk, 1 + number % 2, 1250)
            for product in random.sample(products, 1 if random.random() < 0.6 else 2)
        ]
        at = start + timedelta(days=DAYS * number / count)
        endings = {line.shop_id: random.choice(STATUSES) for line in lines}
        yield BulkOrder(random.choice(customer_ids), at, "EUR", lines, endings, delivery_fee=490)


def settle() -> None:
    """Bring the database to rest after the inserts: new statistics, a checkpoint, and no running vacuum."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("ANALYZE")
            return
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
        vacuums = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"
        while cursor.execute(vacuums).fetchone() != (0,):
            time.sleep(1)


def taken(call: Callable[[], Any], times: int) -> list[float]:
    """Return the milliseconds of each call."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1000)
    return took


def measure_reads(times: int) -> dict[str, list[float]]:
    """Return the milliseconds of each read."""
    gc.collect()
    gc.freeze()  # as the server does after its start
    today = datetime.now(UTC).date()
    days = {"first": today - timedelta(days=89), "last": today}
    measured = {}
    for name, email in EMAILS.items():
        user = User.objects.get(email=email)
        key = create_api_key(user=user, name="bench", now=timezone.now())[1]
        client = Client(headers={"Authorization": f"Bearer {key}", "Host": "localhost"})
        browser = Client(headers={"Host": "localhost"})
        browser.force_login(user)
        asks = {read: (client, path.format(**days)) for read, path in READS.items()}
        for read, (asker, url) in (asks | {"the dashboard": (browser, DASHBOARD)}).items():
            for _ in range(3):
                assert asker.get(url).status_code == 200
            measured[f"{read}, {name}"] = taken(lambda asker=asker, url=url: asker.get(url), times)  # type: ignore[misc]
    return measured


def live(first_day: datetime) -> None:
    """Compute the platform's figures of GET /analytics from the orders."""
    parents = Order.objects.filter(parent=None)
    sold = Order.objects.filter(order_status="complete", parent__order_status="complete")
    complete = parents.filter(order_status="complete")
    for rows, fees in ((sold, complete), (sold.filter(parent__created_at__gte=first_day), complete)):
        rows.aggregate(Sum("total"))
        fees.aggregate(sum=Sum(F("sales_tax") + F("delivery_fee")))
    Refund.objects.filter(status="approved").aggregate(Sum("amount"))
    parents.count()
    sold.filter(parent__created_at__year=first_day.year).values("parent__created_at__month").annotate(
        Sum("total")
    ).order_by().count()
    for days in (1, 7, 30, 365):
        recent = parents.filter(created_at__gte=timezone.now() - timedelta(days=days))
        list(recent.values_list("order_status").annotate(Count("pk")).order_by())


def live_sales() -> None:
    """Compute the rows of GET /category-wise-product-sale from the orders."""
    lines = OrderLine.objects.filter(order__order_status="complete", order__parent__order_status="complete")
    rows = lines.values_list("product__categories", "order__shop").annotate(sold=Sum("quantity"))
    list(rows.order_by("-sold")[:15])


def measure_writes(times: int) -> dict[str, float]:
    """Return the milliseconds of one order, and of 2,000 bulk orders, with and without the triggers, in turns."""
    customer = User.objects.filter(role="CUSTOMER").earliest("pk")
    products = list(Product.objects.filter(quantity__gt=100).order_by("pk")[:400])
    lines = [RequestedLine(product_id=product.pk, quantity=1) for product in products[::200]]
    past = list(_orders(2000, products, [customer.pk], Random(1)))
    measured: dict[str, list[float]] = {}
    for number in range(times):
        for name in ("with", "without"):
            if name == "without":
                with transaction.atomic():
                    triggers.remove()

            def buy() -> None:
                place_order(customer=customer, lines=lines, delivery=DeliveryDetails(), now=timezone.now())

            measured.setdefault(f"an order {name}", []).append(statistics.median(taken(buy, 40)))

            def write(random: Random = Random(f"{name} {number}")) -> None:  # noqa: B008 - each turn has its own
                list(insert_orders(past, random=random))

            measured.setdefault(f"in bulk {name}", []).extend(taken(write, 1))
            if name == "without":
                with transaction.atomic():
                    triggers.install()
    return {name: statistics.median(values) for name, values in measured.items()}


def make(orders: int) -> dict[str, float]:
    """Create the shops, their analytics and owner groups; return the seconds that it took."""
    call_command("migrate", verbosity=0)
    began = time.perf_counter()
    make_shop(orders)
    made, entries = time.perf_counter(), LedgerEntry.objects.count()
    aggregate_ledger(now=timezone.now())
    while update_next_group():
        pass
    aggregated = time.perf_counter()
    settle()
    return {"seed s": made - began, "entries": entries, "aggregate s": aggregated - made}


def measure_live(times: int) -> dict[str, float]:
    """Return the milliseconds of the figures from the orders, and the seconds of the reconciliation."""
    overview = statistics.median(taken(lambda: live(timezone.now().replace(hour=0)), times))
    sales = statistics.median(taken(live_sales, times))
    began = time.perf_counter()
    assert find_differences() == []
    return {"live": overview, "live sales": sales, "reconcile s": time.perf_counter() - began}


def rebuild() -> dict[str, float]:
    began = time.perf_counter()
    while not rebuild_step(now=timezone.now()).is_complete:
        pass
    return {"rebuild s": time.perf_counter() - began}


STEPS: dict[str, Callable[[int], dict[str, Any]]] = {
    "make": make,
    "reads": measure_reads,
    "live": measure_live,
    "writes": lambda times: measure_writes(times) | rebuild(),  # the orders without triggers are missing
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("count", type=int, help="how many orders to make, or how often to measure")
    given = parser.parse_args()
    json.dump(STEPS[given.step](given.count), sys.stdout)


if __name__ == "__main__":
    main()
