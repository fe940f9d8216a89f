"""GET, POST, PUT /api/shops."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from commerce.catalog.models import Category, Product
from commerce.shops import services
from commerce.shops.models import Shop, ShopStaff
from commerce.shops.serializers import NewShopSerializer
from commerce.shops.services import increment_order_counts
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.factories import make_picture, make_product
from tests.commerce.conftest import ApiClient, make_user

PATH = "/api/shops"


@pytest.fixture
def other_owner(db: None) -> User:
    return make_user(Role.STORE_OWNER, "other")


def send(client_of: ApiClient, user: User | None, method: str, path: str, sent: Any) -> Any:
    return getattr(client_of(user), method)(path, sent, content_type="application/json")


def test_services_save_every_field_of_a_request():
    fields = {field.source for field in NewShopSerializer().fields.values()}
    assert fields == {*services.COLUMNS, *services.IMAGES, "slug", "is_active"}


def listed(client_of: ApiClient, user: User | None = None, **query: Any) -> list[str]:
    answer = client_of(user).get(PATH, query)
    assert answer.status_code == 200, answer.content
    return [shop["slug"] for shop in answer.json()["data"]]


def test_everybody_sees_active_shops_with_their_figures(client_of: ApiClient, shop: Shop):
    make_product(shop, "lamp", status="publish")
    make_product(shop, "draft")
    increment_order_counts(shop_ids=[shop.pk])
    increment_order_counts(shop_ids=[shop.pk])
    Shop.objects.update(logo=make_picture(shop.owner))

    record = client_of(None).get(f"{PATH}/corner").json()

    assert set(record) == {
        "id", "name", "slug", "description", "is_active", "owner_id", "logo", "cover_image", "address", "settings",
        "orders_count", "products_count", "created_at", "updated_at",
    }  # fmt: skip
    assert (record["orders_count"], record["products_count"], record["cover_image"]) == (2, 1, None)
    assert set(record["logo"]) == {"id", "original", "thumbnail", "alt", "focal_point"}
    assert client_of(None).get(PATH).json()["data"] == [record]
    assert client_of(None).get(f"{PATH}/{shop.pk}").json() == record


def test_an_inactive_shop_is_visible_to_its_owner_and_staff_only(
    client_of: ApiClient, shop: Shop, owner: User, staff: User, admin: User, other_owner: User, customer: User
):
    Shop.objects.update(is_active=False)

    for user in (owner, staff, admin):
        assert listed(client_of, user) == ["corner"]
    for stranger in (None, customer, other_owner):
        assert listed(client_of, stranger) == []
        assert client_of(stranger).get(f"{PATH}/corner").status_code == 404


def test_a3_users_who_lost_the_role_see_the_public_shop(client_of: ApiClient, shop: Shop, owner: User, staff: User):
    make_product(shop, "draft", status="draft")
    Shop.objects.update(is_active=False)
    User.objects.update(role=Role.CUSTOMER)

    for user in (owner, staff):
        user.refresh_from_db()
        me = client_of(user).get("/api/me").json()
        assert (me["shop_id"], me["shops"]) == (None, [])
        assert listed(client_of, user) == []
        for path in ("products", "orders"):
            assert client_of(user).get(f"/api/{path}", {"shop_id": shop.pk}).json()["total"] == 0
        assert client_of(user).get("/api/products/draft").status_code == 404


def test_an_owner_creates_a_shop_that_a_super_admin_activates(client_of: ApiClient, other_owner: User, admin: User):
    answer = send(client_of, other_owner, "post", PATH, {"name": "Far Trails", "is_active": True})

    assert answer.status_code == 201, answer.content
    record = answer.json()
    assert (record["slug"], record["owner_id"], record["is_active"]) == ("far-trails", other_owner.pk, False)
    assert listed(client_of) == []

    assert send(client_of, other_owner, "put", f"{PATH}/far-trails", {"is_active": True}).json()["is_active"] is False
    assert send(client_of, admin, "put", f"{PATH}/far-trails", {"is_active": True}).json()["is_active"] is True
    assert listed(client_of) == ["far-trails"]


def test_an_owner_has_a_limited_number_of_inactive_shops(
    client_of: ApiClient, shop: Shop, owner: User, other_owner: User, admin: User
):
    def opened(user: User) -> int:
        return int(send(client_of, user, "post", PATH, {"name": "Far Trails"}).status_code)

    assert [opened(other_owner) for _ in range(11)] == [201] * 10 + [409]
    assert Shop.objects.filter(owner=other_owner).count() == 10
    assert (opened(owner), opened(admin)) == (201, 201)
    waiting = Shop.objects.filter(owner=other_owner).earliest("pk")
    assert send(client_of, admin, "put", f"{PATH}/{waiting.pk}", {"is_active": True}).status_code == 200
    assert (opened(other_owner), opened(other_owner)) == (201, 409)


def test_other_users_cannot_create_a_shop(client_of: ApiClient, customer: User, staff: User):
    for user, status in ((None, 401), (customer, 403), (staff, 403)):
        assert send(client_of, user, "post", PATH, {"name": "Far Trails"}).status_code == status
    assert Shop.objects.count() == 1


def test_an_owner_changes_what_is_sent(client_of: ApiClient, shop: Shop, owner: User):
    picture = make_picture(owner)
    sent = {"name": "Corner Shop", "address": {"city": "Oslo"}, "settings": {"tags": ["a"]}, "logo": {"id": picture.pk}}

    record = send(client_of, owner, "put", f"{PATH}/{shop.pk}", sent).json()

    assert {name: record[name] for name in ("name", "address", "settings", "slug")} == {
        "name": "Corner Shop", "address": {"city": "Oslo"}, "settings": {"tags": ["a"]}, "slug": "corner",
    }  # fmt: skip
    assert record["logo"]["id"] == picture.pk


def test_an_empty_address_keeps_what_it_was(client_of: ApiClient, shop: Shop, owner: User):
    send(client_of, owner, "put", f"{PATH}/{shop.pk}", {"address": {"city": "Oslo"}})

    record = send(client_of, owner, "put", f"{PATH}/{shop.pk}", {"address": {}, "settings": {}}).json()

    assert (record["address"], record["settings"]) == ({"city": "Oslo"}, {})


def test_c1_only_the_owner_changes_a_shop(
    client_of: ApiClient, shop: Shop, staff: User, other_owner: User, customer: User
):
    for user, status in ((None, 401), (customer, 403), (staff, 403), (other_owner, 404)):
        assert send(client_of, user, "put", f"{PATH}/corner", {"name": "Mine"}).status_code == status
    shop.refresh_from_db()
    assert shop.name == "Corner"


def test_c1_another_users_picture_is_refused(client_of: ApiClient, shop: Shop, owner: User, other_owner: User):
    answer = send(client_of, owner, "put", f"{PATH}/corner", {"logo": {"id": make_picture(other_owner).pk}})

    assert (answer.status_code, set(answer.json()["errors"])) == (422, {"logo"})


def test_c2_fields_set_by_the_platform_are_ignored(client_of: ApiClient, shop: Shop, owner: User, other_owner: User):
    before = Shop.objects.values("pk", "owner_id", "slug", "is_active", "orders_count", "created_at").get()
    forged = {
        "id": 999, "owner_id": other_owner.pk, "owner": other_owner.pk, "slug": "x", "is_active": False,
        "orders_count": 9, "products_count": 9, "created_at": "2001-01-01", "role": "SUPER_ADMIN", "staff": [1],
    } | {f"field_{number}": number for number in range(1000)}  # fmt: skip

    assert send(client_of, owner, "put", f"{PATH}/corner", forged).status_code == 200
    assert Shop.objects.values(*before).get() == before
    assert not ShopStaff.objects.exists()


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": ""}, "name"),
        ({"address": [1]}, "address"),
        ({"settings": {"x": "y" * 20_000}}, "settings"),
        ({"logo": {"id": "1"}}, "logo"),
    ],
)
def test_invalid_fields_are_422_with_their_names(
    client_of: ApiClient, shop: Shop, owner: User, fields: dict[str, Any], wrong: str
):
    answer = send(client_of, owner, "put", f"{PATH}/corner", fields)

    assert (answer.status_code, set(answer.json()["errors"])) == (422, {wrong})


def test_a_list_costs_the_same_for_ten_shops_and_for_a_thousand(
    client_of: ApiClient, owner: User, django_assert_max_num_queries: DjangoAssertNumQueries
):
    client, counts = client_of(owner), []
    for number in (10, 1000):
        have = Shop.objects.count()
        Shop.objects.bulk_create(Shop(owner=owner, name="x", slug=f"x-{n}") for n in range(have, number))
        with django_assert_max_num_queries(8) as queries:
            assert client.get(PATH, {"limit": 100}).status_code == 200
        counts.append(len(queries))
    assert counts[1] - counts[0] <= 1


def test_shops_show_owner_and_categories_to_everybody_and_staff_to_the_owner(
    client_of: ApiClient, shop: Shop, owner: User, staff: User, admin: User, customer: User
):
    lamp = make_product(shop, status=Product.Status.PUBLISH)
    lamps = Category.objects.create(name="Lamps", slug="lamps", type=lamp.type)
    lamp.categories.add(lamps)
    make_product(shop, "draft").categories.add(Category.objects.create(name="Secret", slug="secret", type=lamp.type))

    for user in (None, customer, staff, owner, admin):
        record = client_of(user).get("/api/shops", {"with": "owner;staffs;categories;balance"}).json()["data"][0]
        assert record["owner"] == {"id": owner.pk, "name": owner.name}
        assert record["categories"] == [{"id": lamps.pk, "name": "Lamps", "slug": "lamps"}]
        members = [member["email"] for member in record["staffs"]] if record["staffs"] is not None else None
        assert members == ([staff.email] if user in (owner, admin) else None)
