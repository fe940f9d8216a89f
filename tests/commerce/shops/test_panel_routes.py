"""Routes that panels call beside the nested ones: /api/my-shops, /api/staffs, /api/approve-shop."""

from typing import Any

import pytest

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import ApiClient, make_user


@pytest.fixture
def rival(db: None) -> User:
    return make_user(Role.STORE_OWNER, "rival")


@pytest.fixture
def rival_shop(rival: User) -> Shop:
    return Shop.objects.create(owner=rival, name="Rival", slug="rival")


def post(client_of: ApiClient, user: User, path: str, body: dict[str, Any]) -> Any:
    return client_of(user).post(path, body, content_type="application/json")


def test_my_shops_are_those_that_a_user_owns_or_works_in(
    client_of: ApiClient, shop: Shop, rival_shop: Shop, owner: User, staff: User
):
    second = Shop.objects.create(owner=owner, name="Second", slug="second", is_active=False)

    assert [row["id"] for row in client_of(owner).get("/api/my-shops").json()] == [second.pk, shop.pk]
    assert [row["id"] for row in client_of(staff).get("/api/my-shops").json()] == [shop.pk]


def test_staffs_are_those_of_an_owners_shops_or_of_one(
    client_of: ApiClient, shop: Shop, rival_shop: Shop, owner: User, staff: User, admin: User
):
    second = Shop.objects.create(owner=owner, name="Second", slug="second")
    helper, strange = make_user(Role.STAFF, "helper"), make_user(Role.STAFF, "strange")
    ShopStaff.objects.create(user=helper, shop=second)
    ShopStaff.objects.create(user=strange, shop=rival_shop)

    def listed(user: User, **query: Any) -> list[tuple[int, int]]:
        rows = client_of(user).get("/api/staffs", query).json()["data"]
        return [(row["id"], row["shop_id"]) for row in rows]

    assert listed(owner) == [(helper.pk, second.pk), (staff.pk, shop.pk)]
    assert listed(owner, shop_id=shop.pk) == [(staff.pk, shop.pk)]
    assert listed(owner, shop_id=rival_shop.pk) == []
    assert listed(admin, shop_id=rival_shop.pk) == [(strange.pk, rival_shop.pk)]


def test_all_staffs_are_those_of_every_shop(
    client_of: ApiClient, shop: Shop, rival_shop: Shop, staff: User, admin: User
):
    strange = make_user(Role.STAFF, "strange")
    ShopStaff.objects.create(user=strange, shop=rival_shop)
    User.objects.filter(pk=strange.pk).update(is_active=False)

    def listed(**query: Any) -> list[int]:
        return [row["id"] for row in client_of(admin).get("/api/all-staffs", query).json()["data"]]

    assert listed() == [strange.pk, staff.pk]
    assert listed(search="is_active:false") == [strange.pk]


def test_new_shops_are_inactive_unless_the_query_asks_for_others(client_of: ApiClient, shop: Shop, admin: User):
    waiting = Shop.objects.create(owner=shop.owner, name="Second", slug="second", is_active=False)

    def listed(**query: Any) -> list[int]:
        return [row["id"] for row in client_of(admin).get("/api/new-shops", query).json()["data"]]

    assert listed() == listed(is_active="false") == [waiting.pk]
    assert listed(is_active="1") == [shop.pk]
    assert client_of(admin).get("/api/new-shops?is_active=maybe").json()["errors"] == {"is_active": ["Send 1 or 0."]}


@pytest.mark.parametrize(
    ("path", "role"),
    [("admin/list", Role.SUPER_ADMIN), ("vendors/list", Role.STORE_OWNER), ("customers/list", Role.CUSTOMER)],
)
def test_users_are_listed_by_role(client_of: ApiClient, shop: Shop, admin: User, path: str, role: Role):
    person = make_user(role, "ada")
    User.objects.filter(pk=person.pk).update(is_active=False)

    listed = client_of(admin).get(f"/api/{path}?orderBy=id&sortedBy=desc").json()["data"]
    everyone = client_of(admin).get("/api/users?limit=100").json()

    assert {row["role"] for row in listed} == {role}
    assert (listed[0]["id"], listed[0]["email"]) == (person.pk, person.email)
    assert everyone["total"] == User.objects.count()
    assert [row["id"] for row in client_of(admin).get("/api/users?is_active=0").json()["data"]] == [person.pk]


def test_a_member_is_invited_and_removed_by_staffs(
    client_of: ApiClient, shop: Shop, rival_shop: Shop, owner: User, staff: User, rival: User
):
    body = {"email": "ada@example.com", "name": "Ada", "password": "a good passphrase"}

    answer = post(client_of, owner, "/api/staffs", body | {"shop_id": shop.pk})

    assert (answer.status_code, answer.json()["email"]) == (201, "ada@example.com")
    assert not User.objects.filter(email="ada@example.com").exists()
    assert post(client_of, owner, "/api/staffs", body | {"shop_id": rival_shop.pk}).status_code == 404
    for wrong in ({}, {"shop_id": "x"}, {"shop_id": 2**70}, {"shop_id": None}):
        refused = post(client_of, owner, "/api/staffs", body | wrong)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["shop_id"])
    assert StaffInvitation.objects.get().shop == shop
    assert client_of(rival).delete(f"/api/staffs/{staff.pk}").status_code == 404
    assert client_of(owner).delete(f"/api/staffs/{staff.pk}").json() is True
    staff.refresh_from_db()
    assert (staff.role, ShopStaff.objects.count()) == (Role.CUSTOMER, 0)


def test_a_super_admin_approves_and_disapproves_a_shop(client_of: ApiClient, shop: Shop, admin: User):
    for path, is_active in (("disapprove-shop", False), ("approve-shop", True), ("approve-shop", True)):
        answer = post(client_of, admin, f"/api/{path}", {"id": shop.pk, "admin_commission_rate": 10})
        shop.refresh_from_db()
        assert (answer.json()["is_active"], shop.is_active) == (is_active, is_active)
    assert post(client_of, admin, "/api/approve-shop", {"id": shop.pk + 999}).status_code == 404
    for wrong in ({}, {"id": "x"}, {"id": 2**70}, {"id": [shop.pk]}):
        refused = post(client_of, admin, "/api/approve-shop", wrong)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["id"])
