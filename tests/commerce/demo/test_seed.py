"""`manage_commerce.py seed`."""

import io
import json

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import Client

from commerce.attributes.models import Attribute
from commerce.catalog.models import Category, Product, Tag, Variation
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User

pytestmark = pytest.mark.django_db


def seed() -> list[dict[str, object]]:
    output = io.StringIO()
    call_command("seed", "--small", "--json", stdout=output)
    return list(json.loads(output.getvalue())["users"])


def rows() -> list[list[object]]:
    return [
        list(model.objects.order_by("pk").values_list())
        for model in (User, Shop, ShopStaff, Category, Product, Product.categories.through, Variation, Attribute, Tag)
    ]


def test_the_small_demo_has_users_of_every_role_two_shops_and_products():
    users = seed()

    assert {user["role"] for user in users} == {"SUPER_ADMIN", "STORE_OWNER", "STAFF", "CUSTOMER"}
    assert Shop.objects.count() == 2
    assert Product.objects.filter(status="publish").count() == 20
    for shop in Shop.objects.all():
        assert shop.products.exists()
        assert shop.staff.exists()
        assert shop.owner.role == "STORE_OWNER"


def test_the_small_demo_has_attributes_variations_tags_and_subcategories():
    seed()

    assert list(Attribute.objects.values_list("shop__slug", "name").order_by("id")) == [
        ("hearth-and-table", "Color"), ("hearth-and-table", "Material"),
        ("far-trails", "Color"), ("far-trails", "Size"),
    ]  # fmt: skip
    bag = Product.objects.get(slug="harrow-pannier-bag")
    assert [variation.title for variation in bag.variations.all()] == [
        "S/Slate", "S/Rust", "M/Slate", "M/Rust", "L/Slate", "L/Rust",
    ]  # fmt: skip
    assert (bag.quantity, bag.price, bag.attribute_values.count()) == (24, 7200, 5)
    assert [category.slug for category in bag.categories.order_by("depth")] == ["cycling", "bike-bags"]
    assert Product.objects.filter(tags__slug="bestseller").count() == 3
    assert Category.objects.filter(parent__slug="kitchen").count() == 2


def test_a_second_run_changes_nothing():
    first = seed()
    before = rows()

    assert seed() == first
    assert rows() == before


def test_changed_data_stays_changed():
    seed()
    Product.objects.filter(slug="brunvale-teapot").update(price=1)
    seed()

    assert Product.objects.get(slug="brunvale-teapot").price == 1


def test_the_printed_passwords_sign_in():
    for user in seed():
        body = {"email": user["email"], "password": user["password"]}
        answer = Client().post("/api/token", body, content_type="application/json")

        assert answer.status_code == 200, answer.content
        assert answer.json()["role"] == user["role"]


def test_without_json_the_command_prints_a_line_per_user():
    output = io.StringIO()
    call_command("seed", "--small", stdout=output)

    lines = output.getvalue().splitlines()
    assert len(lines) == User.objects.count()
    assert lines[0].split()[:2] == ["SUPER_ADMIN", "admin@stoa.example"]


def test_production_refuses_the_demo_passwords(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(settings, "SETTINGS_MODULE", "commerce.config.settings.production")

    with pytest.raises(CommandError, match="production"):
        call_command("seed")
    assert not User.objects.exists()
