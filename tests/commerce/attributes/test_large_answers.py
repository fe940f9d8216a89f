"""Rows N1 and N3: the largest attributes that the limits allow, read whole and by clients that read nothing."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx2
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from commerce.attributes.models import Attribute, AttributeValue
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.attributes.conftest import NOW, make_attribute
from tests.commerce.conftest import ApiClient
from tests.commerce.live_server import ServedShop, manage, served_shop

MAX_ARRAY_BYTES = 4 * 1024 * 1024
MAX_GROWTH_BYTES = 64 * 1024 * 1024
SLOW_READERS = 12
# Three shops with 20,000 values each: few attributes with long values, few with short ones, and 1,000 with 20 each.
FILL = r"""
from django.utils import timezone
from commerce.attributes.models import Attribute, AttributeValue
from commerce.shops.models import Shop
from shared.accounts.models import User
now, owner = timezone.now(), User.objects.filter(role="STORE_OWNER").first()
for number, (count, values, length) in enumerate([(5, 4000, 100), (5, 4000, 1), (1000, 20, 20)]):
    shop = Shop.objects.create(owner=owner, name=f"Large {number}", slug=f"large-{number}", is_active=True)
    attributes = Attribute.objects.bulk_create(
        Attribute(shop=shop, name=f"A{i}", slug=f"large-{number}-{i}", created_at=now, updated_at=now)
        for i in range(count)
    )
    for attribute in attributes:
        texts = {"value": "\U0001f600" * length, "slug": "u" * length}
        rows = [AttributeValue(attribute=attribute, **texts) for _ in range(values)]
        AttributeValue.objects.bulk_create(rows, batch_size=2000)
print(shop.pk - 2)
"""


@pytest.fixture
def shop_with_large_attributes(empty_database_url: str) -> Iterator[tuple[ServedShop, int]]:
    """A running shop, and the id of the first of its three largest shops."""
    with served_shop(provider_url="http://127.0.0.1:9", database_url=empty_database_url) as served:
        yield served, int(manage(served.environment, "shell", "-v", "0", "-c", FILL))


@pytest.mark.timeout(300)
def test_n1_n3_no_answer_is_unbounded_and_slow_readers_delay_nobody(
    shop_with_large_attributes: tuple[ServedShop, int],
):
    served, shop_id = shop_with_large_attributes
    url: str | None = f"{served.url}/api/attributes"
    ids: list[int] = []
    httpx2.get(url, params={"limit": 1}, timeout=60)
    before = memory_of(served.pid)
    while url:
        answer = httpx2.get(url, timeout=60)
        assert len(answer.content) <= MAX_ARRAY_BYTES
        ids += [row["id"] for row in answer.json()]
        url = answer.links.get("next", {}).get("url")
    assert len(ids) == len(set(ids)) == int(answer.headers["x-total-count"]) >= 1010
    assert memory_of(served.pid) - before <= MAX_GROWTH_BYTES

    before = memory_of(served.pid)  # the bound is for one request
    path = f"/api/export-attributes/{shop_id}"
    assert httpx2.get(served.url + path, timeout=60).text.count("\n") == 20_001
    assert memory_of(served.pid) - before <= MAX_GROWTH_BYTES

    address = urlsplit(served.url)
    with ExitStack() as readers:
        for _ in range(SLOW_READERS):
            reader = readers.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect((address.hostname, address.port))
            reader.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        time.sleep(3)
        # A request waits ten seconds for a connection of the pool.
        statuses = [httpx2.get(f"{served.url}/api/products", timeout=9).status_code for _ in range(6)]
    assert statuses == [200] * 6


def memory_of(pid: int) -> int:
    """Return the largest resident memory of a process so far, in bytes."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def test_n3_an_array_reads_no_more_values_than_fit(shop: Shop):
    for number in range(20):  # more than the services allow
        attribute = Attribute.objects.create(shop=shop, name="A", slug=f"a{number}", created_at=NOW, updated_at=NOW)
        AttributeValue.objects.bulk_create(
            AttributeValue(attribute=attribute, value="v", slug="v") for _ in range(4000)
        )
    answer = Client().get("/api/attributes")
    assert len(answer.content) <= MAX_ARRAY_BYTES
    assert len(answer.json()) == 4
    assert answer.headers["X-Total-Count"] == "20"
    assert answer.headers["Link"] == '<http://testserver/api/attributes?offset=4>; rel="next"'


def test_n3_the_values_of_one_attribute_have_a_maximum_length_together(client_of: ApiClient, owner: User, shop: Shop):
    mine = client_of(owner)
    values = [{"value": f"{number}".rjust(200, "v"), "meta": "m" * 800} for number in range(401)]
    message = "Color: value and meta of all values have 401000 characters together; at most 400000 are allowed."
    body = {"name": "Color", "shop_id": shop.pk, "values": values}
    refused = mine.post("/api/attributes", body, content_type="application/json")
    assert (refused.status_code, refused.json()["errors"]) == (422, {"values": [message]})
    assert not Attribute.objects.exists()

    attribute = make_attribute(shop, values=values[:400])
    sheet = f"name,value,meta\r\nColor,{'w' * 200},m\r\n"
    upload = {"shop_id": shop.pk, "csv": SimpleUploadedFile("a.csv", sheet.encode())}
    assert mine.post("/api/import-attributes", upload).status_code == 422
    assert attribute.values.count() == 400
    assert attribute.updated_at == NOW
