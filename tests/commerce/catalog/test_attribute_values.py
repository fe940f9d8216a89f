"""Products whose variations combine attribute values: written and read as storefronts and admin panels do."""

from typing import Any

import pytest
from django.utils import timezone

from commerce.attributes.models import Attribute, AttributeValue
from commerce.attributes.services import create_attribute
from commerce.catalog.models import Product, ProductValue, Variation, VariationValue
from commerce.catalog.variations import refresh_derived_fields
from commerce.orders.pricing import RequestedLine
from commerce.orders.services import DeliveryDetails, place_order
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.factories import make_picture, make_product, make_variable_product
from tests.commerce.conftest import ApiClient, make_user

PATH = "/api/products"
EVERYTHING = "variations.attribute.values;variation_options"


def send(client_of: ApiClient, user: User, method: str, path: str, sent: Any = None) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


@pytest.fixture
def size(shop: Shop) -> Attribute:
    return _attribute(shop, "Size", "S", "L")


@pytest.fixture
def color(shop: Shop) -> Attribute:
    return _attribute(shop, "Color", "Red", "Blue")


@pytest.fixture
def rival_owner(db: None) -> User:
    return make_user(Role.STORE_OWNER, "rival")


@pytest.fixture
def shirt(shop: Shop) -> Product:
    """A variable product without variations, which everybody sees."""
    return make_product(shop, "shirt", product_type=Product.Kind.VARIABLE, status=Product.Status.PUBLISH)


def _attribute(shop: Shop, name: str, *values: str) -> Attribute:
    items = [{"value": value} for value in values]
    return create_attribute(actor=shop.owner, shop_id=shop.pk, name=name, values=items, now=timezone.now())


def id_of(attribute: Attribute, text: str) -> int:
    return attribute.values.get(value=text).pk


def listed(*attributes: Attribute) -> list[dict[str, int]]:
    return [{"attribute_value_id": value.pk} for attribute in attributes for value in attribute.values.all()]


def option(size: str, color: str, **fields: Any) -> dict[str, Any]:
    options = [{"name": "Size", "value": size}, {"name": "Color", "value": color}]
    return {"title": f"{size}/{color}", "price": 20, "quantity": 3, "options": options} | fields


def change(client_of: ApiClient, user: User, product: Product, **sent: Any) -> Any:
    return send(client_of, user, "put", f"{PATH}/{product.pk}?with={EVERYTHING}", sent)


def test_a_variable_product_is_created_with_values_and_combinations(
    client_of: ApiClient, shop: Shop, owner: User, size: Attribute, color: Attribute
):
    image = make_picture(owner)
    upsert = [option("S", "Red", sku="S-R", sale_price=18.5, image={"id": image.pk}), option("L", "Blue", price=22)]
    sent = {
        "name": "Shirt", "shop_id": shop.pk, "type_id": make_product(shop).type_id, "product_type": "variable",
        "variations": listed(size, color), "variation_options": {"upsert": upsert, "delete": []},
    }  # fmt: skip

    answer = send(client_of, owner, "post", f"{PATH}?with={EVERYTHING}", sent)

    assert answer.status_code == 201, answer.content
    record = answer.json()
    assert [(value["value"], value["attribute"]["name"]) for value in record["variations"]] == [
        ("S", "Size"), ("L", "Size"), ("Red", "Color"), ("Blue", "Color"),
    ]  # fmt: skip
    assert [value["value"] for value in record["variations"][0]["attribute"]["values"]] == ["S", "L"]
    first, second = record["variation_options"]
    assert (first["title"], first["price"], first["sale_price"], first["sku"]) == ("S/Red", 20.0, 18.5, "S-R")
    assert first["options"] == upsert[0]["options"]
    assert (first["image"]["id"], second["image"]) == (image.pk, None)
    assert (record["quantity"], record["min_price"], record["max_price"]) == (6, 18.5, 22.0)
    assert VariationValue.objects.count() == 4


def test_upsert_changes_adds_and_deletes_by_id_and_leaves_all_others(
    client_of: ApiClient, owner: User, shirt: Product, size: Attribute, color: Attribute
):
    upsert = [option("S", "Red"), option("S", "Blue"), option("L", "Red")]
    made = change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": upsert}).json()
    red, blue, large = (variation["id"] for variation in made["variation_options"])

    changed = change(
        client_of, owner, shirt,
        variation_options={
            "upsert": [{"id": blue, "title": "Blue", "price": 30, "quantity": 1}, option("L", "Blue")],
            "delete": [red],
        },
    ).json()  # fmt: skip

    rows = changed["variation_options"]
    assert [(row["id"], row["title"], row["quantity"]) for row in rows[:2]] == [(blue, "Blue", 1), (large, "L/Red", 3)]
    assert [row["title"] for row in rows] == ["Blue", "L/Red", "L/Blue"]
    assert rows[0]["options"] == upsert[1]["options"]  # not sent, so unchanged
    assert (changed["quantity"], changed["max_price"], len(changed["variations"])) == (7, 30.0, 4)
    assert Variation.objects.get(pk=red).deleted_at is not None


def test_a_renamed_value_is_renamed_in_the_options_of_its_variations(
    client_of: ApiClient, owner: User, shirt: Product, size: Attribute, color: Attribute
):
    change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": [option("S", "Red")]})
    values = [{"id": id_of(color, "Red"), "value": "Crimson"}, {"id": id_of(color, "Blue"), "value": "Blue"}]

    assert send(client_of, owner, "put", f"/api/attributes/{color.pk}", {"values": values}).status_code == 200

    record = client_of(None).get(f"{PATH}/{shirt.pk}", {"with": "variation_options"}).json()
    assert record["variation_options"][0]["options"] == [
        {"name": "Size", "value": "S"}, {"name": "Color", "value": "Crimson"},
    ]  # fmt: skip


def test_variations_and_their_options_are_shown_on_request_only(client_of: ApiClient, shirt: Product):
    record = client_of(None).get(f"{PATH}/{shirt.pk}").json()
    assert {"variations", "variation_options"}.isdisjoint(record)


def test_variations_keep_their_ids_and_their_free_text_until_values_are_listed(
    client_of: ApiClient, shop: Shop, owner: User, size: Attribute
):
    shirt = make_variable_product(shop, S=3, L=4)
    small, large = shirt.variations.all()
    Variation.objects.filter(pk=small.pk).update(options=[{"name": "Size", "value": "S"}])

    before = change(client_of, owner, shirt).json()
    after = change(client_of, owner, shirt, variations=listed(size), variation_options={}).json()

    assert (before["variations"], [row["id"] for row in before["variation_options"]]) == ([], [small.pk, large.pk])
    assert before["variation_options"][0]["options"] == [{"name": "Size", "value": "S"}]
    assert before["variation_options"] == after["variation_options"]
    assert [value["value"] for value in after["variations"]] == ["S", "L"]


def test_the_former_form_still_replaces_all_variations(
    client_of: ApiClient, owner: User, shirt: Product, size: Attribute, color: Attribute
):
    made = change(
        client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": [option("S", "Red")]}
    )
    kept = made.json()["variation_options"][0]["id"]

    record = change(client_of, owner, shirt, variations=[option("L", "Red", id=kept), option("L", "Blue")]).json()

    assert [(row["id"] == kept, row["title"]) for row in record["variation_options"]] == [
        (True, "L/Red"), (False, "L/Blue"),
    ]  # fmt: skip
    assert len(record["variations"]) == 4


def test_an_empty_list_alone_deletes_variations_and_values_as_before(
    client_of: ApiClient, owner: User, shirt: Product, size: Attribute, color: Attribute
):
    change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": [option("S", "Red")]})

    record = change(client_of, owner, shirt, variations=[]).json()

    assert (record["variations"], record["variation_options"], record["quantity"]) == ([], [], 0)


BAD: list[tuple[dict[str, Any], set[str]]] = [
    ({"variations": [{"attribute_value_id": 2**62}]}, {"variations.0.attribute_value_id"}),
    ({"variations": [{"attribute_value_id": "x"}]}, {"variations.0.attribute_value_id"}),
    ({"variations": [{"attribute_value_id": 2**64}]}, {"variations.0.attribute_value_id"}),
    ({"variations": [{"attribute_value_id": None}]}, {"variations.0.attribute_value_id"}),
    ({"variations": [{"title": "S"}]}, {"variations.0.price"}),
    ({"variations": [option("S", "Red")], "variation_options": {}}, {"variations"}),
    ({"variations": "all"}, {"variations.non_field_errors"}),
    ({"variations": [{"attribute_value_id": 1}] * 201}, {"variations.non_field_errors"}),
    ({"variation_options": []}, {"variation_options.non_field_errors"}),
    ({"variation_options": {"upsert": {}}}, {"variation_options.upsert.non_field_errors"}),
    ({"variation_options": {"upsert": [option("S", "Red")] * 101}}, {"variation_options.upsert.non_field_errors"}),
    ({"variation_options": {"upsert": [option("S", "Green")]}}, {"variation_options.upsert.0.options.1"}),
    ({"variation_options": {"upsert": [option("S", "Red"), option("S", "Red")]}}, {"variation_options.upsert.0"}),
    ({"variation_options": {"upsert": [option("S", "Red", id=2**62)]}}, {"variation_options.upsert.0"}),
    ({"variation_options": {"upsert": [option("S", "Red", image={"id": 2**62})]}},
     {"variation_options.upsert.0.image"}),
    ({"variation_options": {"upsert": [option("S", "Red", price=-1)]}}, {"variation_options.upsert.0.price"}),
    ({"variation_options": {"upsert": [option("S", "Red", sale_price=21)]}}, {"variation_options.upsert.0"}),
    ({"variation_options": {"delete": [2**62]}}, {"variation_options.delete.0"}),
    ({"variation_options": {"delete": ["x"]}}, {"variation_options.delete.0"}),
    ({"variation_options": {"delete": [1] * 1001}}, {"variation_options.delete"}),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "fields"), BAD)
def test_i4_bad_variations_are_422_that_names_the_field_and_change_nothing(
    client_of: ApiClient,
    owner: User,
    shirt: Product,
    size: Attribute,
    color: Attribute,
    sent: dict[str, Any],
    fields: set[str],
):
    change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": [option("L", "Red")]})
    before = change(client_of, owner, shirt).json()

    answer = change(client_of, owner, shirt, name="Changed", **sent)

    assert answer.status_code == 422, answer.content
    assert set(answer.json()["errors"]) == fields
    assert client_of(owner).get(f"{PATH}/{shirt.pk}?with={EVERYTHING}").json() == before


def test_two_values_of_one_attribute_are_no_combination(
    client_of: ApiClient, owner: User, shirt: Product, size: Attribute, color: Attribute
):
    both = [{"name": "Size", "value": "S"}, {"name": "Size", "value": "L"}]
    upsert = [option("S", "Red", options=both)]

    answer = change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": upsert})

    assert set(answer.json()["errors"]) == {"variation_options.upsert.0.options.1"}
    assert not Variation.objects.exists()


def test_values_and_variations_of_other_shops_and_products_are_422(
    client_of: ApiClient, owner: User, shop: Shop, shirt: Product, rival_owner: User
):
    other = Shop.objects.create(owner=rival_owner, name="Other", slug="other")
    foreign_value = _attribute(other, "Size", "S").values.get()
    foreign_variation = make_variable_product(other, "coat", S=1).variations.get()

    for sent, field in (
        ({"variations": [{"attribute_value_id": foreign_value.pk}]}, "variations.0.attribute_value_id"),
        ({"variation_options": {"delete": [foreign_variation.pk]}}, "variation_options.delete.0"),
        (
            {"variation_options": {"upsert": [{"id": foreign_variation.pk, "title": "x", "price": 1}]}},
            "variation_options.upsert.0",
        ),
    ):
        answer = change(client_of, owner, shirt, **sent)
        assert (answer.status_code, set(answer.json()["errors"])) == (422, {field})
    foreign_variation.refresh_from_db()
    assert (foreign_variation.title, foreign_variation.deleted_at) == ("S", None)


def test_a_product_cannot_drop_a_value_that_one_of_its_variations_uses(
    client_of: ApiClient, owner: User, shirt: Product, size: Attribute, color: Attribute
):
    change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": [option("S", "Red")]})
    variation = Variation.objects.get()
    without_red = [item for item in listed(size, color) if item["attribute_value_id"] != id_of(color, "Red")]

    answer = change(client_of, owner, shirt, variations=without_red, variation_options={"upsert": []})
    assert answer.status_code == 422
    assert "'S/Red' uses the value 'Red'" in answer.json()["errors"]["variations"][0]
    assert ProductValue.objects.count() == 4

    answer = change(client_of, owner, shirt, variations=without_red, variation_options={"delete": [variation.pk]})
    assert (answer.status_code, len(answer.json()["variations"])) == (200, 3)


class TestDeletingAValue:
    @pytest.fixture
    def used(
        self, client_of: ApiClient, owner: User, shirt: Product, size: Attribute, color: Attribute
    ) -> AttributeValue:
        upsert = [option("S", "Red")]
        change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": upsert})
        return color.values.get(value="Red")

    def test_a_used_value_cannot_be_deleted_and_the_error_names_the_product(
        self, client_of: ApiClient, owner: User, shirt: Product, color: Attribute, used: AttributeValue
    ):
        path = f"/api/attributes/{color.pk}"
        for answer in (
            send(client_of, owner, "put", path, {"values": []}),
            send(client_of, owner, "delete", path),
        ):
            assert answer.status_code == 422
            (message,) = answer.json()["errors"]["values"]
            assert f"'Velmo lamp' (id {shirt.pk}) uses the value 'Red'" in message
        assert color.values.count() == 2

    def test_a_used_attribute_does_not_move_to_another_shop(
        self, client_of: ApiClient, owner: User, color: Attribute, used: AttributeValue
    ):
        second = Shop.objects.create(owner=owner, name="Second", slug="second")

        answer = send(client_of, owner, "put", f"/api/attributes/{color.pk}", {"shop_id": second.pk})

        assert (answer.status_code, set(answer.json()["errors"])) == (422, {"shop_id"})
        color.refresh_from_db()
        assert color.shop_id != second.pk

    @pytest.mark.parametrize("release", ["delete the product", "make it simple", "take the values off"])
    def test_a_value_that_no_product_uses_any_more_can_be_deleted(
        self, client_of: ApiClient, owner: User, shirt: Product, color: Attribute, used: AttributeValue, release: str
    ):
        if release == "delete the product":
            assert send(client_of, owner, "delete", f"{PATH}/{shirt.pk}").status_code == 200
        elif release == "make it simple":
            assert change(client_of, owner, shirt, product_type="simple", price=5).status_code == 200
        else:
            removed = {"delete": [Variation.objects.get().pk]}
            assert change(client_of, owner, shirt, variations=[], variation_options=removed).status_code == 200

        answer = send(client_of, owner, "delete", f"/api/attributes/{color.pk}")

        assert answer.status_code == 200, answer.content
        assert not Attribute.objects.filter(pk=color.pk).exists()


def test_a_new_currency_needs_the_prices_of_all_variations_that_stay(
    client_of: ApiClient, owner: User, shirt: Product, size: Attribute, color: Attribute
):
    upsert = [option("S", "Red"), option("L", "Red")]
    change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": upsert})
    small, large = Variation.objects.order_by("id")
    priced = {"id": small.pk, "title": "S", "price": 3000, "sale_price": None}

    refused = change(client_of, owner, shirt, currency="JPY", variation_options={"upsert": [priced]})
    assert set(refused.json()["errors"]) == {"currency"}

    changes = {"upsert": [priced], "delete": [large.pk]}
    record = change(client_of, owner, shirt, currency="JPY", variation_options=changes).json()
    assert (record["currency"], record["max_price"]) == ("JPY", 3000)


def test_an_order_takes_the_stock_of_the_ordered_combination(
    client_of: ApiClient, owner: User, customer: User, shirt: Product, size: Attribute, color: Attribute
):
    upsert = [option("S", "Red"), option("L", "Red", price=25)]
    change(client_of, owner, shirt, variations=listed(size, color), variation_options={"upsert": upsert})
    large = Variation.objects.get(title="L/Red")

    order = place_order(
        customer=customer,
        lines=[RequestedLine(product_id=shirt.pk, quantity=2, variation_id=large.pk)],
        delivery=DeliveryDetails(),
        now=timezone.now(),
    )

    record = client_of(None).get(f"{PATH}/{shirt.pk}", {"with": "variation_options"}).json()
    assert [(row["title"], row["quantity"]) for row in record["variation_options"]] == [("S/Red", 3), ("L/Red", 1)]
    assert (record["quantity"], order.amount) == (4, 5000)


def test_low_stock_lists_a_product_with_a_low_variation_before_those_with_more(
    client_of: ApiClient, shop: Shop, owner: User
):
    make_variable_product(shop, "plenty", S=50, L=50)
    make_variable_product(shop, "one-size-low", S=2, L=50)
    make_product(shop, "five", quantity=5)
    gone = make_variable_product(shop, "low-size-deleted", S=1, L=50)
    gone.variations.filter(title="S").update(deleted_at=timezone.now())
    refresh_derived_fields(product=gone)
    make_product(shop, "ten", quantity=10)

    rows = client_of(owner).get("/api/low-stock-products", {"with": "variation_options"}).json()

    assert [row["slug"] for row in rows] == ["one-size-low", "five"]
    assert [variation["quantity"] for variation in rows[0]["variation_options"]] == [2, 50]


def test_an_attribute_inside_a_product_lists_its_first_100_values(
    client_of: ApiClient, shirt: Product, size: Attribute
):
    AttributeValue.objects.bulk_create(AttributeValue(attribute=size, value=str(n), slug=str(n)) for n in range(99))
    for text in ("S", "L"):
        ProductValue.objects.create(product=shirt, value_id=id_of(size, text))
    found = client_of(None).get(f"{PATH}/{shirt.slug}?with={EVERYTHING}").json()["variations"]
    expected = ["S", "L", *map(str, range(98))]
    assert [[value["value"] for value in item["attribute"]["values"]] for item in found] == [expected, expected]


def test_a_product_without_variations_that_becomes_simple_loses_its_attribute_values(
    client_of: ApiClient, owner: User, shirt: Product, size: Attribute
):
    ProductValue.objects.create(product=shirt, value_id=id_of(size, "S"))
    assert change(client_of, owner, shirt, product_type="simple", price=5).json()["variations"] == []
    assert not ProductValue.objects.filter(product=shirt).exists()
