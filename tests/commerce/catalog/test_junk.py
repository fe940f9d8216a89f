"""Invalid values of any field get one of the documented responses."""

from typing import Any

import pytest
from django.db import connection

from commerce.catalog.models import Product
from commerce.shops import services
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient

pytestmark = pytest.mark.timeout(600)  # thousands of requests

JUNK = (
    None, True, -1, 0, 2**31, 2**63, 10**30, 1.5, 1e300, "", " ", "x" * 300, "\u0661", "1", "\ud7ff\u202e", "a/b",
    [], [1], [None], [[]], [{"id": 2**63}], [{"id": -1}], {}, {"id": None}, {"id": True}, {"id": "1"}, {"a": [1]},
    list(range(200)), [{}] * 200,
)  # fmt: skip
# Values that reach a database; what the others meet is the same code on every database.
STORED_JUNK = (0, 2**31, 2**63, 10**30, 1e300, "x" * 300, "\u0661", "\ud7ff\u202e", [{"id": 2**63}], {"a": [1]})
PRODUCT_FIELDS = (
    "shop_id", "name", "slug", "language", "description", "type_id", "product_type", "status", "currency", "price",
    "sale_price", "sku", "quantity", "is_taxable", "unit", "height", "width", "length", "image", "gallery",
    "categories", "tags", "variations", "variation_options",
)  # fmt: skip
SHOP_FIELDS = ("name", "slug", "description", "address", "settings", "logo", "cover_image", "is_active")
SHELF_FIELDS = ("name", "slug", "language", "type_id", "parent_id", "parent")
ANSWERS = {200, 201, 400, 403, 404, 422}


def junk_values() -> tuple[Any, ...]:
    return JUNK if connection.vendor == "sqlite" else STORED_JUNK


def statuses(client: Any, method: str, path: str, whole: dict[str, Any], fields: tuple[str, ...]) -> set[int]:
    return {
        getattr(client, method)(path, whole | {field: junk}, content_type="application/json").status_code
        for field in fields
        for junk in junk_values()
    }


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_product(shop)


def test_hostile_values_in_a_new_product_are_client_errors(client_of: ApiClient, lamp: Product, owner: User):
    whole = {"shop_id": lamp.shop_id, "name": "Lamp", "price": 1, "type_id": lamp.type_id}

    assert statuses(client_of(owner), "post", "/api/products", whole, PRODUCT_FIELDS) <= ANSWERS


def test_hostile_values_in_a_changed_product_are_client_errors(client_of: ApiClient, lamp: Product, owner: User):
    whole = {"product_type": "variable"}

    assert statuses(client_of(owner), "put", f"/api/products/{lamp.pk}", whole, PRODUCT_FIELDS) <= ANSWERS


@pytest.mark.parametrize(
    "field", ["id", "title", "options", "image", "sku", "price", "sale_price", "quantity", "attribute_value_id"]
)
def test_hostile_values_in_a_variation_are_client_errors(client_of: ApiClient, lamp: Product, owner: User, field: str):
    client = client_of(owner)
    for junk in junk_values():
        item = {"title": "S", "price": 1} | {field: junk}
        for sent in ({"variations": [item]}, {"variation_options": {"upsert": [item]}}):
            body = {"product_type": "variable"} | sent
            answer = client.put(f"/api/products/{lamp.pk}", body, content_type="application/json")
            assert answer.status_code in ANSWERS


@pytest.mark.parametrize("field", ["upsert", "delete"])
def test_hostile_values_in_variation_options_are_client_errors(
    client_of: ApiClient, lamp: Product, owner: User, field: str
):
    client = client_of(owner)
    for junk in junk_values():
        sent = {"product_type": "variable", "variation_options": {field: junk}}
        assert client.put(f"/api/products/{lamp.pk}", sent, content_type="application/json").status_code in ANSWERS


def test_hostile_values_in_shops_are_client_errors(
    client_of: ApiClient, shop: Shop, owner: User, admin: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(services, "MAX_INACTIVE_SHOPS", 1_000_000)
    assert statuses(client_of(owner), "post", "/api/shops", {"name": "New"}, SHOP_FIELDS) <= ANSWERS
    assert statuses(client_of(admin), "put", f"/api/shops/{shop.pk}", {}, SHOP_FIELDS) <= ANSWERS


def test_hostile_values_in_types_and_categories_are_client_errors(client_of: ApiClient, lamp: Product, admin: User):
    whole = {"name": "New", "type_id": lamp.type_id}

    for path in ("/api/types", "/api/categories", "/api/tags"):
        assert statuses(client_of(admin), "post", path, whole, SHELF_FIELDS) <= ANSWERS


@pytest.mark.parametrize(
    "path", ["/api/products", "/api/shops", "/api/categories", "/api/types", "/api/tags", "/api/products/lamp"]
)
def test_hostile_values_in_a_query_are_client_errors(client_of: ApiClient, lamp: Product, owner: User, path: str):
    client = client_of(owner)
    names = ("page", "limit", "search", "orderBy", "sortedBy", "with", "language", "shop_id", "type_id", "category_id")
    choices = ("attribute_value_id", "price_from", "price_to", "rating_from", "in_stock", "tag_id", "parent", "facets")
    for name in (*names, *choices, "searchJoin", "searchFields"):
        for value in (
            "",
            "\x00",
            "-1",
            "1e9",
            "x" * 2000,
            "\u0661",
            "a:b;c",
            "name:\x00",
            "id:999999999999999999999",
            ";:",
        ):
            assert client.get(path, {name: value}).status_code in (200, 404, 422), (name, value)
