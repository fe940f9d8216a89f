"""GET, POST, PUT, DELETE /api/products."""

from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.serializers import Serializer

from commerce.attachments.models import Attachment
from commerce.catalog import services, variations
from commerce.catalog.models import Category, Product, ProductType
from commerce.catalog.serializers import NewProductSerializer
from commerce.catalog.variation_serializers import VariationWriteSerializer
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.factories import make_picture, make_product, make_variable_product
from tests.commerce.conftest import ApiClient, make_user

PATH = "/api/products"
RECORD = {
    "id", "name", "slug", "description", "type_id", "price", "sale_price", "min_price", "max_price", "currency", "sku",
    "quantity", "sold_quantity", "in_stock", "is_taxable", "status", "product_type", "unit", "height", "width",
    "length", "image", "gallery", "language", "shop_id", "ratings", "total_reviews", "rating_count", "created_at",
    "updated_at",
}  # fmt: skip


@pytest.mark.parametrize(
    ("serializer", "columns"),
    [
        (
            NewProductSerializer,
            {
                *services.COLUMNS,
                "slug",
                "language",
                "shop_id",
                "image_id",
                "gallery_ids",
                "category_ids",
                "tag_ids",
                "variations",
                "variation_options",
            },
        ),
        (VariationWriteSerializer, {*variations.COLUMNS, "id"}),
    ],
)
def test_services_save_every_field_of_a_request(serializer: type[Serializer[Any]], columns: set[str]):
    assert {field.source for field in serializer().fields.values()} == columns


def publish(shop: Shop, slug: str = "velmo-lamp", **fields: Any) -> Product:
    return make_product(shop, slug, status=Product.Status.PUBLISH, **fields)


def body(shop: Shop, **fields: Any) -> dict[str, Any]:
    product_type, _ = ProductType.objects.get_or_create(slug="home", language="en", defaults={"name": "Home"})
    return {"shop_id": shop.pk, "name": "Velmo Lamp", "price": 12.5, "type_id": product_type.pk} | fields


@pytest.fixture
def other_owner(db: None) -> User:
    return make_user(Role.STORE_OWNER, "other")


@pytest.fixture
def other_shop(other_owner: User) -> Shop:
    return Shop.objects.create(owner=other_owner, name="Other", slug="other")


def send(client_of: ApiClient, user: User | None, method: str, path: str, sent: Any = None) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


def listed(client_of: ApiClient, user: User | None = None, **query: Any) -> list[str]:
    answer = client_of(user).get(PATH, query)
    assert answer.status_code == 200, answer.content
    return [product["slug"] for product in answer.json()["data"]]


class TestReading:
    def test_everybody_sees_the_published_products_of_active_shops_newest_first(
        self, client_of: ApiClient, shop: Shop, other_shop: Shop
    ):
        for slug in ("first", "second"):
            publish(shop, slug)
        make_product(shop, "draft")
        publish(shop, "gone", deleted_at=timezone.now())
        publish(other_shop, "closed")
        Shop.objects.filter(pk=other_shop.pk).update(is_active=False)

        assert listed(client_of) == ["second", "first"]

    def test_the_record_is_complete_and_its_prices_are_numbers(self, client_of: ApiClient, shop: Shop):
        lamp = publish(shop, sale_price=999, quantity=3, image=make_picture(shop.owner), rating_sum=8, rating_count=3)
        lamp.gallery.set([make_picture(shop.owner)])

        record = client_of(None).get(f"{PATH}/velmo-lamp").json()

        assert set(record) == RECORD
        assert (record["price"], record["sale_price"], record["min_price"], record["max_price"]) == (
            12.5, 9.99, 9.99, 9.99,
        )  # fmt: skip
        assert (record["quantity"], record["in_stock"]) == (3, True)
        assert (record["ratings"], record["total_reviews"], record["rating_count"]) == (2.67, 3, 3)
        assert set(record["image"]) == {"id", "original", "thumbnail", "alt", "focal_point"}
        assert [picture["id"] for picture in record["gallery"]] == [lamp.gallery.get().pk]
        assert record["created_at"] == lamp.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        assert client_of(None).get(f"{PATH}/{lamp.pk}").json() == record

    def test_with_includes_related_records(self, client_of: ApiClient, shop: Shop):
        shirt = make_variable_product(shop, small=3, large=4)
        Product.objects.update(status="publish")
        shirt.categories.add(Category.objects.create(type=shirt.type, name="Shirts", slug="shirts"))

        record = client_of(None).get(f"{PATH}/{shirt.pk}", {"with": "type;shop;categories;variation_options"}).json()

        assert record["type"] == {"id": shirt.type_id, "name": "Home", "slug": "home"}
        assert record["shop"] == {"id": shop.pk, "name": "Corner", "slug": "corner", "logo": None}
        assert [category["slug"] for category in record["categories"]] == ["shirts"]
        assert [(v["title"], v["price"], v["quantity"]) for v in record["variation_options"]] == [
            ("small", 20.0, 3),
            ("large", 21.0, 4),
        ]
        assert (record["min_price"], record["max_price"], record["quantity"]) == (20.0, 21.0, 7)

    def test_shop_members_see_products_of_any_status_by_shop_id(
        self, client_of: ApiClient, shop: Shop, owner: User, staff: User, other_owner: User, admin: User
    ):
        publish(shop, "public")
        make_product(shop, "draft")

        for user in (owner, staff, admin):
            assert listed(client_of, user, shop_id=shop.pk) == ["draft", "public"]
            assert client_of(user).get(f"{PATH}/draft").status_code == 200
        for stranger in (None, other_owner):
            assert listed(client_of, stranger, shop_id=shop.pk) == ["public"]
            assert client_of(stranger).get(f"{PATH}/draft").status_code == 404
        assert listed(client_of, owner) == ["public"]

    def test_lists_are_of_one_language(self, client_of: ApiClient, shop: Shop):
        publish(shop, "lamp")
        publish(shop, "lampe", language="de")

        assert listed(client_of) == ["lamp"]
        assert listed(client_of, language="de") == ["lampe"]
        assert client_of(None).get(f"{PATH}/lampe").json()["slug"] == "lampe"  # there is no English one
        assert client_of(None).get(f"{PATH}/lampe", {"language": "en"}).status_code == 404
        assert client_of(None).get(f"{PATH}/lampe", {"language": "de"}).json()["slug"] == "lampe"
        for language in ("\x00", "x" * 5000, "\u0661", "de;"):
            assert client_of(None).get(f"{PATH}/lampe", {"language": language}).status_code in (404, 422)

    def test_lists_are_searched_filtered_and_ordered(self, client_of: ApiClient, shop: Shop):
        publish(shop, "lamp", name="Green lamp", price=300)
        publish(shop, "chair", name="Green chair", price=100)
        category = Category.objects.create(type=ProductType.objects.get(), name="Seats", slug="seats")
        publish(shop, "stool", name="Red stool", price=200).categories.add(category)

        assert listed(client_of, search="name:green") == ["chair", "lamp"]
        assert listed(client_of, search="categories.slug:seats") == ["stool"]
        assert listed(client_of, category_id=category.pk) == ["stool"]
        assert listed(client_of, orderBy="min_price", sortedBy="asc") == ["chair", "stool", "lamp"]

    def test_prices_are_searched_in_major_units_of_each_currency(self, client_of: ApiClient, shop: Shop):
        publish(shop, "lamp", price=1250)
        publish(shop, "sofa", price=6000, sale_price=5000)
        publish(shop, "fan", price=30, currency="JPY")
        publish(shop, "oud", price=12_345, currency="KWD")

        assert listed(client_of, search="price:12,12.5") == ["oud", "lamp"]
        assert listed(client_of, search="price:12.345") == ["oud"]
        assert listed(client_of, search="price:12.5") == ["lamp"]
        assert listed(client_of, search="price:30,") == ["fan", "sofa"]
        assert listed(client_of, search="min_price:,30") == ["oud", "fan", "lamp"]
        assert listed(client_of, search="max_price:50,50") == ["sofa"]
        assert listed(client_of, search="price:12.3,12.4;status:publish;name:lamp", searchJoin="and") == ["oud"]
        for nothing in ("price:1,2,3", "price:,", "price:x", "price:-1", "price:1e3", "price:50,10", "price:٣"):
            assert listed(client_of, search=nothing) == []

    def test_the_related_products_are_the_newest_public_ones_of_the_type_and_language(
        self, client_of: ApiClient, shop: Shop
    ):
        publish(shop, "lamp")
        publish(shop, "lampe", language="de")
        make_product(shop, "draft")
        publish(shop, "rake", type=ProductType.objects.create(slug="garden", name="Garden"))
        for number in range(21):
            publish(shop, f"chair-{number:02}")

        related = client_of(None).get(f"{PATH}/lamp", {"with": "related_products"}).json()["related_products"]
        assert [product["slug"] for product in related] == [f"chair-{number:02}" for number in range(20, 0, -1)]
        assert related[0]["price"] == 12.5
        rake = client_of(None).get(PATH, {"with": "related_products", "search": "slug:rake"}).json()["data"][0]
        assert rake["related_products"] == []

    @pytest.mark.parametrize("key", ["9223372036854775808", "0", "9" * 40, "\u0661", "-1", "none"])
    def test_i7_an_unknown_product_is_404(self, client_of: ApiClient, shop: Shop, key: str):
        publish(shop)

        assert client_of(None).get(f"{PATH}/{key}").status_code == 404

    @pytest.mark.parametrize("name", ["limit", "shop_id", "type_id", "category_id"])
    @pytest.mark.parametrize("value", ["-1", "0", "1e9", "abc", "9223372036854775808", "1" * 40, "\u0661"])
    def test_c7_numbers_in_the_query_are_422_or_find_nothing(
        self, client_of: ApiClient, owner: User, name: str, value: str
    ):
        answer = client_of(owner).get(PATH, {name: value})

        assert answer.status_code in (200, 422)
        if answer.status_code == 200:
            assert answer.json()["data"] == []

    def test_a_list_costs_the_same_for_ten_products_and_for_a_thousand(
        self, client_of: ApiClient, shop: Shop, django_assert_max_num_queries: DjangoAssertNumQueries
    ):
        picture = make_picture(shop.owner)
        kind = publish(shop, image=picture).type
        client = client_of(None)
        query = {"with": "type;shop;categories;tags;variations;variation_options", "limit": "100"}
        counts = []
        for number in (10, 1000):
            have = Product.objects.count()
            rows = [
                Product(shop=shop, type=kind, name="x", slug=f"x-{n}", price=1, status="publish", image=picture)
                for n in range(have, number)
            ]
            Product.objects.bulk_create(rows)
            with django_assert_max_num_queries(10) as queries:
                assert client.get(PATH, query).status_code == 200
            counts.append(len(queries))
        assert counts[1] - counts[0] <= 1  # a count, if there is more than one page


class TestWriting:
    def test_shop_members_create_a_product(self, client_of: ApiClient, shop: Shop, owner: User, staff: User):
        for user, slug in ((owner, "velmo-lamp"), (staff, "velmo-lamp-2")):
            answer = send(client_of, user, "post", PATH, body(shop, quantity=4, status="publish"))

            assert answer.status_code == 201, answer.content
            assert set(answer.json()) == RECORD
            assert (answer.json()["slug"], answer.json()["price"]) == (slug, 12.5)
        assert listed(client_of) == ["velmo-lamp-2", "velmo-lamp"]

    def test_other_users_cannot_create_a_product(
        self, client_of: ApiClient, shop: Shop, other_shop: Shop, customer: User, other_owner: User, owner: User
    ):
        expected = {None: 401, customer: 403, other_owner: 403}
        for user, status in expected.items():
            assert send(client_of, user, "post", PATH, body(shop)).status_code == status
        assert send(client_of, owner, "post", PATH, body(shop, shop_id=2**62)).status_code == 403
        assert not Product.objects.exists()

    @pytest.mark.parametrize(
        ("fields", "wrong"),
        [
            ({"name": ""}, "name"),
            ({"name": "x" * 256}, "name"),
            ({"price": -1}, "price"),
            ({"price": 1.001}, "price"),
            ({"price": "12"}, "price"),
            ({"sale_price": 13}, "sale_price"),
            ({"quantity": 2**31}, "quantity"),
            ({"quantity": -1}, "quantity"),
            ({"type_id": 2**62}, "type_id"),
            ({"type_id": 2**63}, "type_id"),
            ({"status": "approved"}, "status"),
            ({"status": "sold"}, "status"),
            ({"currency": "eur"}, "currency"),
            ({"language": "e\n"}, "language"),
            ({"slug": ["a b"]}, "slug"),
            ({"image": {"id": 2**62}}, "image"),
            ({"image": 7}, "image"),
            ({"gallery": [{"id": 2**62}]}, "gallery"),
            ({"categories": [2**62]}, "categories"),
            ({"categories": list(range(1, 99))}, "categories"),
            ({"variations": [{"title": "S", "price": 1}]}, "variations"),
            ({"product_type": "variable", "variations": [{"title": "S", "price": 1, "sale_price": 2}]}, "variations.0"),
            ({"product_type": "variable", "variations": [{"title": "S", "price": 1, "id": 5}]}, "variations.0"),
        ],
    )
    def test_invalid_fields_are_422_with_their_names(
        self, client_of: ApiClient, shop: Shop, owner: User, fields: dict[str, Any], wrong: str
    ):
        answer = send(client_of, owner, "post", PATH, body(shop, **fields))

        assert answer.status_code == 422, answer.content
        assert wrong in answer.json()["errors"]
        assert not Product.objects.exists()

    def test_a_simple_product_needs_a_price(self, client_of: ApiClient, shop: Shop, owner: User):
        sent = body(shop)
        del sent["price"]

        assert set(send(client_of, owner, "post", PATH, sent).json()["errors"]) == {"price"}

    def test_a_numeric_name_gets_a_slug_that_is_not_numeric(self, client_of: ApiClient, shop: Shop, owner: User):
        answer = send(client_of, owner, "post", PATH, body(shop, name="2026"))

        assert answer.json()["slug"] == "2026-2"

    def test_a_change_writes_the_sent_fields_only(self, client_of: ApiClient, shop: Shop, staff: User):
        lamp = publish(shop, quantity=3)

        answer = send(client_of, staff, "put", f"{PATH}/{lamp.pk}", {"price": 20, "sale_price": 15.5})

        assert answer.status_code == 200, answer.content
        record = answer.json()
        assert (record["price"], record["sale_price"], record["min_price"]) == (20.0, 15.5, 15.5)
        assert (record["name"], record["slug"], record["quantity"]) == ("Velmo lamp", "velmo-lamp", 3)

    def test_c1_changing_another_shops_product_is_404(
        self, client_of: ApiClient, shop: Shop, other_owner: User, customer: User
    ):
        lamp = publish(shop)

        for method in ("put", "delete"):
            assert send(client_of, other_owner, method, f"{PATH}/{lamp.pk}", {"name": "Mine"}).status_code == 404
            assert send(client_of, customer, method, f"{PATH}/{lamp.pk}", {"name": "Mine"}).status_code == 403
            assert send(client_of, None, method, f"{PATH}/{lamp.pk}", {"name": "Mine"}).status_code == 401
        lamp.refresh_from_db()
        assert (lamp.name, lamp.deleted_at) == ("Velmo lamp", None)

    def test_c1_another_users_pictures_are_refused_unless_the_product_has_them(
        self, client_of: ApiClient, shop: Shop, owner: User, staff: User, other_owner: User
    ):
        ours, theirs = make_picture(owner), make_picture(other_owner)
        lamp = publish(shop, image=ours)

        kept = send(client_of, staff, "put", f"{PATH}/{lamp.pk}", {"image": {"id": ours.pk}})
        stolen = send(client_of, owner, "put", f"{PATH}/{lamp.pk}", {"image": {"id": theirs.pk}})
        hung = send(client_of, owner, "put", f"{PATH}/{lamp.pk}", {"gallery": [{"id": theirs.pk}]})

        assert (kept.status_code, stolen.status_code, hung.status_code) == (200, 422, 422)
        assert Attachment.objects.count() == 2

    def test_c2_fields_set_by_the_platform_are_ignored(
        self, client_of: ApiClient, shop: Shop, owner: User, other_shop: Shop
    ):
        lamp = publish(shop)
        before = {name: getattr(lamp, name) for name in ("pk", "shop_id", "slug", "language", "created_at")}
        forged = {
            "id": 999, "shop_id": other_shop.pk, "slug": "stolen", "language": "de", "created_at": "2001-01-01",
            "ratings": 5, "rating_sum": 5, "rating_count": 1, "sold_quantity": 9, "deleted_at": "2001-01-01",
            "lowest_variation_price": 1, "min_price": 1, "is_staff": True, "role": "SUPER_ADMIN",
        } | {f"field_{number}": number for number in range(1000)}  # fmt: skip

        answer = send(client_of, owner, "put", f"{PATH}/{lamp.pk}", forged)

        assert answer.status_code == 200
        lamp.refresh_from_db()
        assert {name: getattr(lamp, name) for name in before} == before
        assert (lamp.rating_count, lamp.sold_quantity, lamp.deleted_at, lamp.min_price) == (0, 0, None, 1250)

    def test_only_the_platform_approves_and_a_rejected_product_is_not_published_again(
        self, client_of: ApiClient, shop: Shop, owner: User, admin: User
    ):
        path = f"{PATH}/{publish(shop).pk}"

        assert send(client_of, owner, "put", path, {"status": "approved"}).status_code == 422
        assert send(client_of, admin, "put", path, {"status": "rejected"}).status_code == 200
        for by_way_of in ("publish", "draft"):
            assert send(client_of, owner, "put", path, {"status": by_way_of}).status_code == 422
        assert send(client_of, owner, "put", path, {"status": "under_review"}).status_code == 200
        for by_way_of in ("publish", "draft"):
            assert send(client_of, owner, "put", path, {"status": by_way_of}).status_code == 422
        assert send(client_of, admin, "put", path, {"status": "approved"}).status_code == 200
        assert send(client_of, owner, "put", path, {"status": "publish"}).status_code == 200

    @pytest.mark.parametrize("prices", [{}, {"price": 4000}, {"sale_price": 3500}])
    def test_a_new_currency_needs_all_prices(
        self, client_of: ApiClient, shop: Shop, owner: User, prices: dict[str, float]
    ):
        lamp = publish(shop, price=4900, sale_price=4500)

        answer = send(client_of, owner, "put", f"{PATH}/{lamp.pk}", {"currency": "JPY"} | prices)

        assert set(answer.json()["errors"]) == {"currency"}
        lamp.refresh_from_db()
        assert (lamp.currency, lamp.price, lamp.sale_price) == ("EUR", 4900, 4500)

    def test_a_new_currency_is_accepted_with_all_prices(self, client_of: ApiClient, shop: Shop, owner: User):
        lamp = publish(shop, price=4900, sale_price=4500)
        sent = {"currency": "JPY", "price": 8000, "sale_price": None}

        record = send(client_of, owner, "put", f"{PATH}/{lamp.pk}", sent).json()

        assert (record["currency"], record["price"], record["sale_price"]) == ("JPY", 8000, None)
        assert send(client_of, owner, "put", f"{PATH}/{lamp.pk}", {"currency": "JPY"}).status_code == 200

    def test_a_deleted_product_leaves_every_list_and_keeps_its_row(self, client_of: ApiClient, shop: Shop, owner: User):
        lamp = publish(shop)

        assert send(client_of, owner, "delete", f"{PATH}/{lamp.pk}").json()["id"] == lamp.pk
        assert send(client_of, owner, "delete", f"{PATH}/{lamp.pk}").status_code == 404
        assert listed(client_of, owner, shop_id=shop.pk) == []
        assert Product.objects.get().deleted_at is not None


def test_c5_a_shop_without_members_gives_nobody_access(client_of: ApiClient, shop: Shop, db: None):
    idle = make_user(Role.STAFF, "idle")
    make_product(shop, "draft")

    assert not ShopStaff.objects.exists()
    assert listed(client_of, idle, shop_id=shop.pk) == []
    assert send(client_of, idle, "post", PATH, body(shop)).status_code == 403
