"""Variations in the requests of products."""

from typing import Any

import pytest

from commerce.catalog.models import Product
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product, make_variable_product
from tests.commerce.conftest import ApiClient

PATH = "/api/products"


def send(client_of: ApiClient, user: User, method: str, path: str, sent: Any) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


def test_sent_variations_replace_the_whole_list(client_of: ApiClient, shop: Shop, owner: User):
    shirt = make_variable_product(shop, small=3, large=4)
    small, large = shirt.variations.all()
    wanted = [{"id": large.pk, "title": "L", "price": 30, "quantity": 1}, {"title": "XL", "price": 40, "id": None}]

    answer = send(client_of, owner, "put", f"{PATH}/{shirt.pk}?with=variation_options", {"variations": wanted})

    record = answer.json()
    assert [(v["title"], v["price"], v["quantity"]) for v in record["variation_options"]] == [
        ("L", 30.0, 1),
        ("XL", 40.0, 0),
    ]
    assert (record["quantity"], record["min_price"], record["max_price"]) == (1, 30.0, 40.0)
    small.refresh_from_db()
    assert small.deleted_at is not None


def test_variation_prices_are_in_the_products_currency(client_of: ApiClient, shop: Shop, owner: User):
    wanted = [{"title": "S", "price": 900}]
    kind = make_product(shop, "another").type_id
    sent = {"name": "Shirt", "shop_id": shop.pk, "type_id": kind, "currency": "JPY", "product_type": "variable"}

    made = send(client_of, owner, "post", f"{PATH}?with=variation_options", sent | {"variations": wanted}).json()
    changed = send(
        client_of,
        owner,
        "put",
        f"{PATH}/{made['id']}?with=variation_options",
        {"variations": [{"title": "M", "price": 950}]},
    ).json()

    assert (made["min_price"], made["variation_options"][0]["price"], changed["max_price"]) == (900, 900, 950)
    assert Product.objects.get(slug="shirt").lowest_variation_price == 950


def test_a_new_currency_needs_every_variation_price(client_of: ApiClient, shop: Shop, owner: User):
    shirt = make_variable_product(shop, small=3)
    small = {"id": shirt.variations.get().pk, "title": "S", "price": 3000}
    for wanted in ({}, {"variations": [small]}):
        answer = send(client_of, owner, "put", f"{PATH}/{shirt.pk}", {"currency": "JPY"} | wanted)
        assert set(answer.json()["errors"]) == {"currency"}

    sent = {"currency": "JPY", "variations": [small | {"sale_price": None}, {"title": "L", "price": 3500}]}
    record = send(client_of, owner, "put", f"{PATH}/{shirt.pk}", sent).json()

    assert (record["currency"], record["min_price"], record["max_price"]) == ("JPY", 3000, 3500)


def test_a_change_without_variations_keeps_them(client_of: ApiClient, shop: Shop, owner: User):
    shirt = make_variable_product(shop, small=3)

    record = send(client_of, owner, "put", f"{PATH}/{shirt.pk}?with=variation_options", {"quantity": 99}).json()

    assert (record["quantity"], len(record["variation_options"])) == (3, 1)


@pytest.mark.parametrize(
    ("item", "fields"),
    [
        ({}, ["title", "price"]),
        ({"title": "M"}, ["price"]),
        ({"title": "M", "price": 9, "options": [{"name": "Size"}]}, ["options.0.value"]),
        ({"title": "M", "price": 9, "quantity": 2**31 - 1}, ["quantity"]),
    ],
)
def test_a_change_needs_the_fields_of_a_new_variation(
    client_of: ApiClient, shop: Shop, owner: User, item: dict[str, Any], fields: list[str]
):
    shirt = make_variable_product(shop, small=3)

    answer = send(client_of, owner, "put", f"{PATH}/{shirt.pk}", {"variation_options": {"upsert": [item]}})

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [f"variation_options.upsert.0.{name}" for name in fields]
    kept = [{"id": shirt.variations.get().pk, "quantity": 4}]
    answer = send(client_of, owner, "put", f"{PATH}/{shirt.pk}", {"variation_options": {"upsert": kept}})
    assert (answer.status_code, answer.json()["quantity"]) == (200, 4)


def test_a_variation_of_another_product_is_refused(client_of: ApiClient, shop: Shop, owner: User):
    shirt, coat = make_variable_product(shop, small=3), make_variable_product(shop, "coat", small=3)
    wanted = [{"id": coat.variations.get().pk, "title": "stolen", "price": 1}]

    answer = send(client_of, owner, "put", f"{PATH}/{shirt.pk}", {"variations": wanted})

    assert answer.status_code == 422
    assert coat.variations.get().title == "small"


def test_a_product_that_becomes_simple_loses_its_variations(client_of: ApiClient, shop: Shop, owner: User):
    shirt = make_variable_product(shop, small=3)

    record = send(
        client_of, owner, "put", f"{PATH}/{shirt.pk}?with=variation_options",
        {"product_type": "simple", "price": 5, "quantity": 2},
    ).json()  # fmt: skip

    assert (record["variation_options"], record["min_price"], record["quantity"]) == ([], 5.0, 2)
