"""The list of products with facets beside the same list without, at 100,000 products: 95th percentiles by filter.

It uses SQLite in a temporary folder, or the empty database that DATABASE_URL names.
"""

import os
import statistics
import tempfile
import time
from itertools import islice
from random import Random
from typing import Any

os.environ.setdefault("STOA_HOME", tempfile.mkdtemp(prefix="stoa-facets-"))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")

import django

django.setup()

from django.conf import settings  # noqa: E402 - what needs Django's apps comes after them
from django.core.cache import cache  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

from commerce.attributes.models import AttributeValue  # noqa: E402
from commerce.attributes.services import create_attribute  # noqa: E402
from commerce.catalog.models import Category, Product, ProductType, ProductValue  # noqa: E402
from commerce.shops.models import Shop  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.accounts.roles import Role  # noqa: E402
from tests.benchmarks._table import Comparison, arguments, publish  # noqa: E402

SHOPS, TYPES, CATEGORIES, VALUES_PER_ATTRIBUTE = 20, 8, 100, 8
QUERIES = {
    "no filter": "",
    "a type": "type_id={type}",
    "a category": "category_id={category}",
    "a value": "attribute_value_id={value}",
    "a value of each of two attributes": "attribute_value_id={value},{other_value}",
    "a price": "price_from=25&price_to=50",
    "a rating": "rating_from=4",
    "in stock": "in_stock=1",
    "type and price": "type_id={type}&price_from=25",
    "type and stock": "type_id={type}&in_stock=1",
    "a search": "search=type.slug:type-1;categories.slug:category-9&searchJoin=and",
    "a shop": "shop_id={shop}",
}


def create_products(count: int) -> dict[str, int]:
    """Create products of several shops, half of them with four attribute values; return ids for the queries."""
    random = Random(7)
    owner = User.objects.create(email="owner@stoa.example", name="Owner", role=Role.STORE_OWNER)
    shops = [Shop.objects.create(owner=owner, name=f"Shop {n}", slug=f"shop-{n}") for n in range(SHOPS)]
    types = [ProductType.objects.create(name=f"Type {n}", slug=f"type-{n}") for n in range(TYPES)]
    categories = [
        Category.objects.create(type=types[n % TYPES], name=f"Category {n}", slug=f"category-{n}")
        for n in range(CATEGORIES)
    ]
    values: dict[int, list[list[int]]] = {}
    for shop in shops:
        items = [{"value": f"Value {n}"} for n in range(VALUES_PER_ATTRIBUTE)]
        attributes = [
            create_attribute(actor=owner, shop_id=shop.pk, name=name, values=items, now=timezone.now())
            for name in ("Size", "Color")
        ]
        values[shop.pk] = [list(attribute.values.values_list("pk", flat=True)) for attribute in attributes]
    products = (_product(number, random, shops, types) for number in range(count))
    while chunk := list(islice(products, 5_000)):
        with transaction.atomic():
            Product.objects.bulk_create(chunk)
            Product.categories.through._default_manager.bulk_create(
                Product.categories.through(product_id=product.pk, category_id=random.choice(categories).pk)
                for product in chunk
            )
            ProductValue.objects.bulk_create(
                ProductValue(product=product, value_id=value_id)
                for product in chunk[::2]
                for of_attribute in values[product.shop_id]
                for value_id in random.sample(of_attribute, 2)
            )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    size, color = values[shops[0].pk]
    return {
        "type": types[0].pk, "category": categories[9].pk, "shop": shops[0].pk, "value": size[0],
        "other_value": color[0],
    }  # fmt: skip


def _product(number: int, random: Random, shops: list[Shop], types: list[ProductType]) -> Product:
    stars = random.choice([0, 2, 3, 4, 5])
    return Product(
        shop=random.choice(shops),
        type=random.choice(types),
        name=f"Product {number}",
        slug=f"product-{number}",
        description="A thing for the house. " * 20,
        price=random.randrange(100, 100_000),
        quantity=random.randrange(20),
        status=Product.Status.PUBLISH,
        rating_sum=stars,
        rating_count=int(stars > 0),
    )


def milliseconds(client: Client, query: str, count: int) -> float:
    """Return the 95th percentile of the time of `count` requests, or that of the only one."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        response: Any = client.get(f"/api/products?{query}")
        times.append((time.perf_counter() - began) * 1000)
        assert response.status_code == 200, response.content
    return statistics.quantiles(times, n=20)[-1] if count > 1 else times[0]


def main() -> None:
    given = arguments(__doc__ or "")
    settings.ALLOWED_HOSTS = ["*"]
    call_command("migrate", verbosity=0)
    ids = create_products(5_000 if given.quick else 100_000)
    assert AttributeValue.objects.exists()
    client, count, comparisons = Client(), 5 if given.quick else 40, []
    cache.clear()
    print(
        f"first request of a process, which reads the columns: {milliseconds(client, 'facets=1', 1):.0f} ms", flush=True
    )
    for name, template in QUERIES.items():
        query = template.format(**ids)
        plain = milliseconds(client, query, count)
        comparisons.append(Comparison(name, milliseconds(client, f"facets=1&{query}", count), plain, "ms, p95"))
    publish(comparisons, given.json)


if __name__ == "__main__":
    main()
