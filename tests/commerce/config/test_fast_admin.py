"""Base classes of admin pages, tested with the products' pages."""

from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from commerce.catalog.models import Product, Variation
from commerce.catalog.stock import StockLine, take_stock
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.admin import base as admin_base
from shared.api.admin.base import EstimatedCountPaginator
from tests.commerce.catalog.factories import make_picture, make_product, make_variable_product

LIST = "/admin/commerce_catalog/product/"
# Sorting a million users by join or login date takes 0.2 s, and many administrators do it.
SORTED_ANYWAY = {(User, "created_at"), (User, "last_login")}


@pytest.fixture
def admin_client(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def found(term: str) -> list[str]:
    products = django_admin.site._registry[Product]
    rows, _ = products.get_search_results(RequestFactory().get("/"), Product.objects.all(), term)
    return sorted(rows.values_list("slug", flat=True))


def form_of(product: Product, **changes: Any) -> dict[str, Any]:
    """Return the form data of this product's page, with changes."""
    fields = {
        "name": product.name, "slug": product.slug, "language": "en", "shop": product.shop_id, "status": product.status,
        "description": "", "type": product.type_id, "product_type": product.product_type, "price": "12.50",
        "sale_price": "", "currency": "EUR", "is_taxable": "on", "sku": "", "quantity": product.quantity, "unit": "",
        "height": "", "width": "", "length": "", "image": "", "initial-quantity": product.quantity,
        "variations-TOTAL_FORMS": 0, "variations-INITIAL_FORMS": 0,
    }  # fmt: skip
    return fields | changes


def variation_forms(product: Product, **first: Any) -> dict[str, Any]:
    rows = list(product.variations.order_by("id"))
    sent: dict[str, Any] = {"variations-TOTAL_FORMS": len(rows), "variations-INITIAL_FORMS": len(rows)}
    for number, row in enumerate(rows):
        fields = {"id": row.pk, "product": product.pk, "title": row.title, "sku": "", "price": row.price / 100}
        fields |= {"sale_price": "", "quantity": row.quantity} | (first if number == 0 else {})
        sent |= {f"variations-{number}-{name}": value for name, value in fields.items()}
        sent[f"initial-variations-{number}-quantity"] = row.quantity
    return sent


class TestCounting:
    def test_a_short_list_is_counted_exactly(self, shop: Shop):
        for number in range(3):
            make_product(shop, f"lamp-{number}")

        assert EstimatedCountPaginator(Product.objects.all(), 2).num_pages == 2
        assert EstimatedCountPaginator([1, 2, 3], 2).count == 3

    def test_a_long_filtered_list_ends_at_the_maximum_count(self, shop: Shop, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(admin_base, "MAX_EXACT_COUNT", 2)
        for number in range(5):
            make_product(shop, f"lamp-{number}")

        assert EstimatedCountPaginator(Product.objects.filter(price=1250), 2).count == 3

    def test_a_long_table_is_estimated(self, shop: Shop, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(admin_base, "MAX_EXACT_COUNT", 2)
        monkeypatch.setattr(admin_base, "_estimated_size", lambda rows: 1_000_000)
        for number in range(5):
            make_product(shop, f"lamp-{number}")

        assert EstimatedCountPaginator(Product.objects.all(), 2).count == 1_000_000

    def test_a_table_size_is_estimated_by_the_database(
        self, shop: Shop, django_assert_num_queries: DjangoAssertNumQueries
    ):
        for number in range(5):
            make_product(shop, f"lamp-{number}")

        with django_assert_num_queries(1):
            assert admin_base._estimated_size(Product.objects.all()) >= -1


class TestSearching:
    @pytest.mark.parametrize(
        "term", ["velmo", "Velmo la", "VELMO-", "velmo lamp", "ab-1", "AB-1", "corner", " velmo ", "vel\x00mo"]
    )
    def test_the_beginning_of_a_name_a_sku_or_a_shop_finds_a_product(self, shop: Shop, term: str):
        make_product(shop, sku="AB-123")

        assert found(term) == ["velmo-lamp"]

    @pytest.mark.parametrize(
        "term", ["lamp", "x", "%", "_", "999999999999999999999", "9" * 5000, "\u0661", "'", '"', "\\"]
    )
    def test_other_search_terms_find_nothing(self, shop: Shop, term: str):
        make_product(shop)

        assert found(term) == []

    def test_a_number_is_an_id(self, shop: Shop):
        lamp = make_product(shop)

        assert found(str(lamp.pk)) == ["velmo-lamp"]

    def test_a_search_reads_indexes(self, shop: Shop):
        make_product(shop)
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL enable_seqscan = off")  # a sequential scan is faster for one row
        for condition in django_admin.site._registry[Product]._conditions("velmo"):  # type: ignore[attr-defined]
            plan = Product.objects.filter(condition).order_by().values_list("pk").explain()
            assert "SCAN commerce_catalog_product\n" not in f"{plan}\n"  # SQLite
            assert "Seq Scan" not in plan


class TestMoney:
    def test_prices_are_shown_and_entered_in_major_units(self, admin_client: Client, shop: Shop):
        lamp = make_product(shop, quantity=3)
        path = f"{LIST}{lamp.pk}/change/"

        assert b'value="12.50"' in admin_client.get(path).content
        assert "12.50 EUR" in admin_client.get(LIST).content.decode()
        answer = admin_client.post(path, form_of(lamp, price="20", sale_price="17.25"))

        assert answer.status_code == 302, answer.context["errors"]
        lamp.refresh_from_db()
        assert (lamp.price, lamp.sale_price, lamp.quantity) == (2000, 1725, 3)

    @pytest.mark.parametrize(
        "changes", [{"price": "1.001"}, {"price": "-1"}, {"sale_price": "13"}, {"price": "1e30"}, {"price": "x"}]
    )
    def test_an_invalid_price_is_an_error_on_the_page(self, admin_client: Client, shop: Shop, changes: dict[str, str]):
        lamp = make_product(shop)

        answer = admin_client.post(f"{LIST}{lamp.pk}/change/", form_of(lamp, **changes))

        assert answer.status_code == 200
        assert set(answer.context["adminform"].form.errors) == set(changes)
        lamp.refresh_from_db()
        assert lamp.price == 1250

    def test_the_currency_decides_what_a_price_means(self, admin_client: Client, shop: Shop):
        lamp = make_product(shop, currency="JPY")

        admin_client.post(f"{LIST}{lamp.pk}/change/", form_of(lamp, price="900", currency="JPY"))

        lamp.refresh_from_db()
        assert lamp.price == 900

    def test_a_new_currency_keeps_the_figures_of_the_page(self, admin_client: Client, shop: Shop):
        lamp = make_product(shop, price=1200, sale_price=900)
        sent = form_of(lamp, price="12.00", sale_price="9.00", currency="JPY")

        assert admin_client.post(f"{LIST}{lamp.pk}/change/", sent).status_code == 302
        lamp.refresh_from_db()
        assert (lamp.currency, lamp.price, lamp.sale_price) == ("JPY", 12, 9)

    def test_a_new_product_and_its_variations_are_priced_in_one_currency(self, admin_client: Client, shop: Shop):
        lamp = make_product(shop)
        first = {"title": "S", "sku": "", "price": "900", "sale_price": "", "quantity": 3}
        sent = form_of(lamp, slug="kimono", product_type="variable", price="0", currency="JPY")
        sent |= {f"variations-0-{name}": value for name, value in first.items()} | {"variations-TOTAL_FORMS": 1}

        assert admin_client.post(f"{LIST}add/", sent).status_code == 302
        kimono = Product.objects.get(slug="kimono")
        assert (kimono.currency, kimono.min_price, kimono.variations.get().price) == ("JPY", 900, 900)

    def test_a_product_with_variations_keeps_its_currency(self, admin_client: Client, shop: Shop):
        shirt = make_variable_product(shop, small=3)
        sent = form_of(shirt, price="20", currency="JPY") | variation_forms(shirt)

        answer = admin_client.post(f"{LIST}{shirt.pk}/change/", sent)

        assert set(answer.context["adminform"].form.errors) == {"currency"}
        shirt.refresh_from_db()
        assert shirt.currency == "EUR"


class TestProducts:
    def test_an_order_while_the_page_is_open_is_not_overwritten(self, admin_client: Client, shop: Shop):
        lamp = make_product(shop, quantity=5)
        sent = form_of(lamp, name="Velmo table lamp")
        take_stock(lines=[StockLine(product_id=lamp.pk, quantity=3)])

        assert admin_client.post(f"{LIST}{lamp.pk}/change/", sent).status_code == 302
        lamp.refresh_from_db()
        assert (lamp.name, lamp.quantity, lamp.sold_quantity) == ("Velmo table lamp", 2, 3)

        assert admin_client.post(f"{LIST}{lamp.pk}/change/", sent | {"quantity": 9}).status_code == 302
        lamp.refresh_from_db()
        assert lamp.quantity == 9

    def test_an_order_of_a_variation_while_the_page_is_open_is_not_overwritten(self, admin_client: Client, shop: Shop):
        shirt = make_variable_product(shop, small=3, large=4)
        sent = form_of(shirt, product_type="variable", price="20.00", **variation_forms(shirt, title="Small"))
        line = StockLine(product_id=shirt.pk, quantity=2, variation_id=shirt.variations.all()[0].pk)
        take_stock(lines=[line])

        assert admin_client.post(f"{LIST}{shirt.pk}/change/", sent).status_code == 302
        shirt.refresh_from_db()
        assert [(form.title, form.quantity) for form in shirt.variations.all()] == [("Small", 1), ("large", 4)]
        assert shirt.quantity == 5

    def test_a_new_product_gets_its_variations(self, admin_client: Client, shop: Shop):
        sent = form_of(make_product(shop), name="Coat", slug="coat", product_type="variable", price="0")
        sent |= {"variations-TOTAL_FORMS": 1, "variations-0-title": "S", "variations-0-price": "89.5"}
        sent |= {"variations-0-quantity": 3, "initial-variations-0-quantity": 0}

        answer = admin_client.post(f"{LIST}add/", sent)

        assert answer.status_code == 302, answer.context["errors"]
        coat = Product.objects.get(slug="coat")
        assert (coat.quantity, coat.min_price, coat.variations.get().price) == (3, 8950, 8950)

    def test_variations_are_changed_and_deleted_and_their_product_follows(self, admin_client: Client, shop: Shop):
        shirt = make_variable_product(shop, small=3, large=4)
        sent = form_of(shirt, product_type="variable", price="20.00", **variation_forms(shirt, is_deleted="on"))

        answer = admin_client.post(f"{LIST}{shirt.pk}/change/", sent)

        assert answer.status_code == 302, answer.context["errors"]
        shirt.refresh_from_db()
        assert (shirt.quantity, shirt.min_price, shirt.max_price) == (4, 2100, 2100)
        assert Variation.objects.filter(deleted_at=None).get().title == "large"
        assert Variation.objects.count() == 2

    def test_actions_publish_reject_and_delete(self, admin_client: Client, shop: Shop):
        lamp = make_product(shop)

        def act(name: str) -> Product:
            sent = {"action": name, "_selected_action": [lamp.pk]}
            assert admin_client.post(LIST, sent).status_code == 302
            lamp.refresh_from_db()
            return lamp

        assert act("publish").status == "publish"
        assert act("reject").status == "rejected"
        assert act("delete_from_lists").deleted_at is not None
        assert admin_client.get(f"{LIST}{lamp.pk}/delete/").status_code == 403

    def test_a_list_of_products_costs_the_same_for_ten_and_for_a_thousand(
        self, admin_client: Client, shop: Shop, django_assert_max_num_queries: DjangoAssertNumQueries
    ):
        picture = make_picture(shop.owner)
        kind = make_product(shop, image=picture).type
        for number in (10, 1000):
            have = Product.objects.count()
            Product.objects.bulk_create(
                Product(shop=shop, type=kind, name="x", slug=f"x-{n}", price=1, image=picture)
                for n in range(have, number)
            )
            with django_assert_max_num_queries(8):
                assert admin_client.get(LIST).status_code == 200

    def test_lists_sort_by_indexed_columns_only(self, admin_client: Client, shop: Shop):
        for number, name in enumerate(("Aven", "Cora", "Bryn")):
            make_product(shop, name.lower(), name=name, quantity=number)

        def names(query: str) -> list[str]:
            return [row.name for row in admin_client.get(f"{LIST}?{query}").context["cl"].result_list]

        assert names("o=2") == ["Aven", "Bryn", "Cora"]
        assert names("o=-2") == ["Cora", "Bryn", "Aven"]
        assert names("o=6") == names("o=-6") == ["Bryn", "Cora", "Aven"]  # quantity: not sortable

    def test_no_list_offers_sorting_by_an_unindexed_column(self, admin_client: Client):
        for model, page in django_admin.site._registry.items():
            for name in page.sortable_by or ():
                field = model._meta.get_field(name)
                leading = [index.fields[0] for index in model._meta.indexes if index.fields and not index.condition]
                keys = [key.fields[0] for key in model._meta.constraints if getattr(key, "fields", ())]
                is_indexed = field.db_index or field.unique or name in [*leading, *keys]
                assert is_indexed or (model, name) in SORTED_ANYWAY, (model, name)

    def test_a_shop_is_activated_and_deactivated(self, admin_client: Client, shop: Shop):
        for action, is_active in (("deactivate", False), ("activate", True)):
            sent = {"action": action, "_selected_action": [shop.pk]}
            assert admin_client.post("/admin/commerce_shops/shop/", sent).status_code == 302
            shop.refresh_from_db()
            assert shop.is_active is is_active


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"deleted": "no"}, {"Chair", "Lampe"}),
        ({"deleted": "yes"}, {"Velmo lamp"}),
        ({"language": "de"}, {"Lampe"}),
        ({"language": "xx", "deleted": "x"}, set()),
        ({"status__exact": "publish"}, {"Chair"}),
        ({"shop__id__exact": "999"}, set()),
    ],
)
def test_products_are_filtered(admin_client: Client, shop: Shop, query: dict[str, str], shown: set[str]):
    make_product(shop, deleted_at=timezone.now())
    make_product(shop, "chair", name="Chair", status="publish")
    make_product(shop, "lampe", name="Lampe", language="de")

    rows = admin_client.get(LIST, query).context["cl"].result_list

    assert {product.name for product in rows} == shown


@pytest.mark.parametrize(
    ("page", "query", "index"),
    [
        ("commerce_catalog/product", "deleted=yes", "commerce_product_deleted"),
        ("commerce_catalog/product", "status__exact=under_review", "commerce_product_by_status"),
        ("commerce_reviews/review", "deleted_at__isempty=0", "commerce_review_deleted"),
        ("commerce_reviews/question", "deleted_at__isempty=0", "commerce_question_deleted"),
        ("commerce_moderation/decision", "undone_at__isempty=0", "commerce_decision_undone"),
        ("commerce_moderation/decision", "action__exact=hidden", "commerce_decision_by_action"),
        ("commerce_descriptions/descriptiondraft", "state__exact=open", "commerce_draft_by_state"),
        ("commerce_attachments/attachment", "content_type__exact=application/pdf", "commerce_attachment_by_type"),
        ("commerce_shops/shop", "is_active__exact=0", "commerce_shop_inactive"),
        ("accounts/user", "role__exact=STAFF", "accounts_user_by_role"),
        ("accounts/user", "is_active__exact=0", "accounts_user_inactive"),
    ],
)
def test_rare_values_are_found_by_an_index(admin_client: Client, page: str, query: str, index: str):
    people = (User(email=f"{place}@example.com", name="Ada", role=Role.CUSTOMER) for place in range(1000))
    User.objects.bulk_create(people)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:  # sequential scans are faster for empty tables
            cursor.execute("ANALYZE accounts_user; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
            # Statistics of another test's rows would make the costs of all indexes equal.
            cursor.execute("UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relname LIKE 'commerce%'")
            cursor.execute("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'commerce%'")

    rows = admin_client.get(f"/admin/{page}/?{query}").context["cl"].queryset

    assert index in rows.select_related(None)[:50].explain()
