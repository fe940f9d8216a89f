"""`manage_commerce.py seed`."""

import io
import json
from collections import Counter
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from commerce.attributes.models import Attribute
from commerce.catalog.models import Category, Product, Tag, Variation
from commerce.demo.services import seed_small
from commerce.demo.small_data import MORE_PRODUCTS, PRODUCTS
from commerce.descriptions.writer import propose_keywords
from commerce.moderation.models import AbuseReport, Case, Decision
from commerce.moderation.queue.second_looks import next_blind_case, second_look_figures
from commerce.orders.models import Order
from commerce.reviews.models import Question, Review
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

    assert {user["role"] for user in users} == {"SUPER_ADMIN", "STORE_OWNER", "STAFF", "CUSTOMER", "MODERATOR"}
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
        ("hearth-and-table", "Measure"), ("hearth-and-table", "Feature"),
        ("far-trails", "Color"), ("far-trails", "Size"), ("far-trails", "Material"),
        ("far-trails", "Measure"), ("far-trails", "Feature"),
    ]  # fmt: skip
    bag = Product.objects.get(slug="harrow-pannier-bag")
    assert [variation.title for variation in bag.variations.all()] == [
        "S/Slate", "S/Rust", "M/Slate", "M/Rust", "L/Slate", "L/Rust",
    ]  # fmt: skip
    assert (bag.quantity, bag.price, bag.attribute_values.count()) == (24, 7200, 6)
    assert [category.slug for category in bag.categories.order_by("depth")] == ["cycling", "bike-bags"]
    assert Product.objects.filter(tags__slug="bestseller").count() == 3
    assert Category.objects.filter(parent__slug="kitchen").count() == 2


def test_the_demo_has_a_year_of_orders_reviews_and_reports_of_which_some_are_decided():
    output = io.StringIO()
    call_command("seed", "--demo", "--json", stdout=output)

    assert Product.objects.filter(status="publish").count() == 30
    orders = Order.objects.filter(parent=None)
    assert orders.count() == 300
    assert timezone.now() - timedelta(days=366) < orders.earliest("created_at").created_at
    assert Review.objects.count() >= 60
    assert Review.objects.filter(comment__startswith="Nicht was").exists()  # several languages
    assert Review.objects.filter(comment__startswith="Demasiado").exists()
    assert AbuseReport.objects.values("reason").distinct().count() == 9
    states = Counter(Case.objects.values_list("state", flat=True))
    assert states["open"] >= 3
    assert min(states["accepted"], states["appealed"]) >= 2
    assert states["rejected"] >= 1
    actions = Decision.objects.filter(undone_at=None).values_list("action", flat=True)
    assert set(actions) == {"accepted", "rejected", "hidden"}
    assert Decision.objects.exclude(undone_at=None).count() == 1
    held = Case.objects.get(hiding="held")
    assert (held.model_type, held.is_waiting) == ("Question", True)
    looks = second_look_figures(now=timezone.now())
    assert looks == {"waiting": 1, "decided": 4, "agreed": 3}
    (mira,) = User.objects.filter(role="MODERATOR")
    assert next_blind_case(mira) is not None

    counted = [model.objects.count() for model in (Product, Order, Review, Question, AbuseReport, Decision)]
    call_command("seed", "--demo", "--json", stdout=output)
    assert [model.objects.count() for model in (Product, Order, Review, Question, AbuseReport, Decision)] == counted


def test_the_form_proposes_keywords_for_every_product_of_the_demo():
    seed_small(products=(*PRODUCTS, *MORE_PRODUCTS), now=timezone.now())

    proposed = {product.slug: propose_keywords(product) for product in Product.objects.all()}
    assert len(proposed) == 30
    assert [slug for slug, keywords in proposed.items() if not keywords] == []
    assert proposed["brunvale-teapot"] == ["Sand", "Charcoal", "Stoneware", "1.2 l"]
    assert proposed["solveig-candle-holder"] == ["set of 3"]
    assert proposed["brae-rain-jacket"][3:] == ["Slate", "Rust", "Recycled nylon", "Waterproof"]
    plate = Product.objects.get(slug="ostara-dinner-plate")
    assert list(plate.variations.values_list("title", flat=True)) == ["Sand", "Charcoal", "Moss"]
    stove = Product.objects.get(slug="ember-camp-stove")
    assert list(stove.variations.values_list("title", "quantity")) == [("Titanium/Foldable", 27)]


def test_a_demo_of_fewer_products_gets_the_missing_values_with_the_others():
    seed()
    shop = Shop.objects.get(slug="hearth-and-table")
    materials = Attribute.objects.get(shop=shop, name="Material")
    materials.values.filter(value__in=("Copper", "Brass")).delete()
    seed_small(products=(*PRODUCTS, *MORE_PRODUCTS), now=timezone.now())

    saucepan = Product.objects.get(slug="marlow-copper-saucepan")
    assert [value.value for value in saucepan.attribute_values.filter(attribute=materials)] == ["Copper"]
    assert Attribute.objects.filter(shop=shop, name="Material").count() == 1


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
