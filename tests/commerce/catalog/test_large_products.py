"""Pages of the largest products that the limits allow: none is larger than 4 MiB."""

from typing import Any

import pytest
from django.utils import timezone

from commerce.attributes.models import Attribute, AttributeValue
from commerce.catalog.models import Product, ProductValue, Variation
from commerce.shops.models import Shop
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient

MAX_BYTES = 4 * 1024 * 1024
ENVELOPE = 4096  # keys of the page beside the rows
EVERYTHING = "variations.attribute.values;variation_options"
PATH = "/api/products"


def make_large_products(shop: Shop, count: int) -> None:
    """Create products, each with 200 values of one attribute whose texts are as long as they may be."""
    now = timezone.now()
    attribute = Attribute.objects.create(shop=shop, name="Size", slug="size", created_at=now, updated_at=now)
    rows = [AttributeValue(attribute=attribute, value="é" * 255, meta="é" * 1000, slug="e") for _ in range(200)]
    values = AttributeValue.objects.bulk_create(rows)
    for number in range(count):
        kind, status = Product.Kind.VARIABLE, Product.Status.PUBLISH
        product = make_product(shop, f"large-{number}", product_type=kind, status=status, description="é" * 20_000)
        ProductValue.objects.bulk_create(ProductValue(product=product, value=value) for value in values)
        Variation.objects.bulk_create(Variation(product=product, title="é" * 255, price=1) for _ in range(100))


def test_a_product_does_not_repeat_the_values_of_its_attribute_without_end(client_of: ApiClient, shop: Shop):
    make_large_products(shop, 1)

    answer = client_of(None).get(f"{PATH}/large-0", {"with": EVERYTHING})

    assert len(answer.content) < MAX_BYTES
    lengths = [len(item["attribute"]["values"]) for item in answer.json()["variations"]]
    assert (len(lengths), lengths[0], lengths[-1], set(lengths)) == (200, 100, 0, {0, 100})


@pytest.mark.parametrize("path", [PATH, f"{PATH}/search"])
def test_a_page_of_products_ends_at_4_mib_and_names_the_rest(client_of: ApiClient, shop: Shop, path: str):
    make_large_products(shop, 9)
    make_product(shop, "small", status=Product.Status.PUBLISH)
    seen: list[str] = []
    url: Any = f"{path}?limit=8&with={EVERYTHING}"

    pages = 0
    while url:
        answer = client_of(None).get(url.removeprefix("http://testserver"))
        page = answer.json()
        assert len(answer.content) < MAX_BYTES + ENVELOPE
        assert (page["from"], page["to"]) == (len(seen) + 1, len(seen) + len(page["data"]))
        assert (page["total"], page["per_page"], page["links"][-1]["url"]) == (10, 8, page["next_page_url"])
        seen += [row["slug"] for row in page["data"]]
        url, pages = page["next_page_url"], pages + 1

    assert seen == ["small", *(f"large-{number}" for number in reversed(range(9)))]
    assert pages > 2


def test_a_page_that_fits_is_followed_by_the_next_page(client_of: ApiClient, shop: Shop):
    for number in range(5):
        make_product(shop, f"lamp-{number}", status=Product.Status.PUBLISH)

    page = client_of(None).get(PATH, {"limit": 2}).json()

    assert page["next_page_url"] == "http://testserver/api/products?limit=2&page=2"
    skipped = client_of(None).get(PATH, {"limit": 2, "offset": 3}).json()
    assert [row["slug"] for row in skipped["data"]] == ["lamp-1", "lamp-0"]
    assert (skipped["from"], skipped["to"], skipped["next_page_url"]) == (4, 5, None)
