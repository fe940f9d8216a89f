"""Public reads have an ETag, by which clients and caches ask whether they have changed."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from commerce.attributes.models import Attribute
from commerce.attributes.services import create_attribute
from commerce.catalog.models import Product
from tests.commerce.routes.route_table import TABLE
from tests.commerce.routes.scenario import World, make_world

# Searches may say how they were made, and downloads are streamed.
PATHS = sorted(
    row.path
    for row in TABLE
    if row.method == "GET" and row.statuses == (200,) * 9 and row.route.startswith("/api/")
    and not row.route.startswith(("/api/export", "/api/openapi", "/api/schema", "/api/docs"))
)  # fmt: skip


@pytest.fixture
def world(db: None, settings: Any, tmp_path: Any) -> World:
    settings.MEDIA_ROOT = tmp_path
    return make_world()


def test_every_public_read_is_304_while_nothing_has_changed(world: World):
    assert len(PATHS) > 20
    for path in PATHS:
        url = path.format(**world.names)
        first = Client().get(url)
        assert first.headers["Cache-Control"] == "no-cache", path
        assert {"Authorization", "X-API-Key"} <= set(first.headers["Vary"].split(", ")), path
        again = Client().get(url, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"]), path


def test_a_changed_list_and_one_for_another_user_are_new(world: World):
    url, headers = f"/api/products?shop_id={world.names['shop']}", world.headers("owner")
    first = Client().get(url)
    asked = {"If-None-Match": first.headers["ETag"]}
    assert Client().get(url, headers=asked).status_code == 304

    assert Client().get(url, headers=asked | headers).status_code == 200
    Product.objects.filter(pk=world.names["product"]).update(price=1)

    changed = Client().get(url, headers=asked)
    assert (changed.status_code, changed.json()["data"][0]["price"]) == (200, 0.01)
    assert Client().get("/api/products/none", headers=asked).status_code == 404
    assert Client().post("/api/products", {}, headers=asked).status_code == 401


def test_an_array_is_new_when_only_the_number_of_its_other_rows_has_changed(world: World):
    url = "/api/attributes?limit=1"
    first = Client().get(url)
    some = Attribute.objects.get(pk=world.names["attribute"])
    create_attribute(actor=some.shop.owner, shop_id=some.shop_id, name="Zinc", values=[], now=timezone.now())

    changed = Client().get(url, headers={"If-None-Match": first.headers["ETag"]})

    assert (changed.status_code, changed.json()) == (200, first.json())
    assert int(changed.headers["X-Total-Count"]) == int(first.headers["X-Total-Count"]) + 1
