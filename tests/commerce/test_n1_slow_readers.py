"""Row N1: readers that read nothing of the shop's longest responses hold no connection to PostgreSQL."""

import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.commerce.attachments.samples import pdf_file
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.live_server import ServedShop, manage, served_shop
from tests.migrated_database import copy_migrated_database, is_postgresql
from tests.network.slow_readers import MIN_BLOCKING_BYTES, connections_in_use, slow_readers

pytestmark = pytest.mark.skipif(not is_postgresql(), reason="SQLite has no pool of connections.")

# 550 products of the first shop with long descriptions, and two attributes with 4,000 long values each.
FILL = r"""
from django.utils import timezone
from commerce.attributes.models import Attribute, AttributeValue
from commerce.catalog.models import Product, Variation
now, first = timezone.now(), Product.objects.public().first()
columns = [field for field in Product._meta.concrete_fields if not field.primary_key and not field.generated]
alike = {field.attname: getattr(first, field.attname) for field in columns} | {"description": "d" * 10_000}
made = Product.objects.bulk_create(Product(**alike | {"slug": f"long-{number}"}) for number in range(550))
Variation.objects.bulk_create(
    Variation(product=made[number % 550], title="\U0001f600" * 255, price=100)
    for number in range(5_200)
)
attributes = Attribute.objects.bulk_create(
    Attribute(shop_id=first.shop_id, name="A", slug=f"long-{number}", created_at=now, updated_at=now)
    for number in range(2)
)
AttributeValue.objects.bulk_create(
    AttributeValue(attribute=attribute, value="\U0001f600" * 200, meta="\U0001f600" * 200, slug=f"{number}")
    for attribute in attributes for number in range(4_000)
)
print(first.shop_id)
"""
WORDS = {"prompt": "Introduce the Velmo lamp.", "stream": True}
REQUESTS: dict[str, dict[str, Any]] = {
    "products": {"method": "GET", "url": "/api/export-products/{shop_id}"},
    "variations": {"method": "GET", "url": "/api/export-variation-options/{shop_id}"},
    "attributes": {"method": "GET", "url": "/api/export-attributes/{shop_id}"},
    "a file": {"method": "GET", "url": "{file_url}"},
}


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    server = ProviderServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shop(provider: ProviderServer) -> Iterator[ServedShop]:
    url = copy_migrated_database(f"n1_{secrets.token_hex(4)}")
    with served_shop(provider_url=provider.url("endless_text"), database_url=url) as served:
        yield served


@pytest.fixture(scope="module")
def names(shop: ServedShop) -> dict[str, str]:
    """Return the id of a large shop, and the URL of a large file."""
    content = pdf_file().replace(b"trailer", b" " * MIN_BLOCKING_BYTES + b"trailer")
    files, headers = {"attachment[]": ("a.pdf", content, "application/pdf")}, shop.headers("SUPER_ADMIN")
    answer = httpx2.post(f"{shop.url}/api/attachments", files=files, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    shop_id = manage(shop.environment, "shell", "-v", "0", "-c", FILL).strip()
    return {"shop_id": shop_id, "file_url": answer.json()[0]["original"]}


@pytest.mark.parametrize("name", REQUESTS)
def test_n1_readers_that_read_nothing_hold_no_connection_and_delay_nobody(
    shop: ServedShop, names: dict[str, str], name: str
):
    wanted = REQUESTS[name] | {"url": REQUESTS[name]["url"].format(**names)}
    with httpx2.Client(base_url=shop.url, headers=shop.headers("SUPER_ADMIN"), timeout=60) as client:
        whole = client.send(request := client.build_request(**wanted))
    assert (whole.status_code, len(whole.content) >= MIN_BLOCKING_BYTES) == (200, True), whole.content[:200]

    check_readers(shop, request)


def test_n1_readers_of_a_text_that_does_not_end_hold_no_connection_and_delay_nobody(shop: ServedShop):
    request = httpx2.Request(
        "POST", f"{shop.url}/api/generate-descriptions", json=WORDS, headers=shop.headers("STORE_OWNER")
    )
    check_readers(shop, request)


def check_readers(shop: ServedShop, request: httpx2.Request) -> None:
    with slow_readers(request):
        assert connections_in_use(shop.environment["DATABASE_URL"]) == []
        begun = time.monotonic()
        statuses = [httpx2.get(f"{shop.url}/api/products", timeout=30).status_code for _ in range(6)]

    assert statuses == [200] * 6
    assert time.monotonic() - begun < 3, "a request waits ten seconds for a connection of the pool"
