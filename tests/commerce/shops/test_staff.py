"""Routes of a shop's staff and open invitations."""

from datetime import timedelta

import pytest
from django.core import signing
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from commerce.shops.invitations import SALT, accept_invitation, invite_staff
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.email.links import InvalidLink
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import sign_in
from tests.commerce.conftest import ApiClient, confirmed, make_user

PASSWORD = "a good long passphrase"


@pytest.fixture
def other_shop(db: None) -> Shop:
    return Shop.objects.create(owner=confirmed(make_user(Role.STORE_OWNER, "other")), name="Other", slug="other")


def invite(shop: Shop, email: str, age: timedelta = timedelta()) -> StaffInvitation:
    return invite_staff(actor=shop.owner, shop_id=shop.pk, email=email, now=timezone.now() - age)


def link_of(invitation: StaffInvitation) -> str:
    """Return the token of the invitation's e-mail."""
    return signing.dumps({"id": invitation.pk, "nonce": invitation.nonce.hex}, salt=SALT)


class TestStaff:
    def path(self, shop: Shop) -> str:
        return f"/api/shops/{shop.pk}/staff"

    def test_an_owner_lists_the_staff_of_their_shop(
        self, client_of: ApiClient, owner: User, staff: User, shop: Shop, other_shop: Shop
    ):
        ShopStaff.objects.create(user=make_user(Role.STAFF, "elsewhere"), shop=other_shop)
        second = make_user(Role.STAFF, "second")
        ShopStaff.objects.create(user=second, shop=shop)

        page = client_of(owner).get(self.path(shop)).json()

        assert [(row["id"], row["email"]) for row in page["data"]] == [
            (second.pk, second.email),
            (staff.pk, staff.email),
        ]
        assert set(page["data"][0]) == {"id", "name", "email", "is_active", "shop_id", "created_at"}
        found = client_of(owner).get(self.path(shop), {"search": "email:second"}).json()["data"]
        assert [row["id"] for row in found] == [second.pk]
        by_name = client_of(owner).get(self.path(shop), {"orderBy": "name", "sortedBy": "desc"}).json()["data"]
        assert [row["name"] for row in by_name] == sorted((staff.name, second.name), reverse=True)

    def test_removed_staff_are_customers_from_the_next_request_on(
        self, client_of: ApiClient, owner: User, shop: Shop, staff: User
    ):
        staff.set_password(PASSWORD)
        staff.save()
        access = sign_in(email=staff.email, password=PASSWORD, address="192.0.2.1", now=timezone.now()).access
        by_key = client_of(staff)
        orders = f"/api/orders?shop_id={shop.pk}"
        product = {"name": "Lamp", "shop_id": shop.pk, "type_id": 1, "price": 1}
        assert by_key.get("/api/me").json()["shop_id"] == shop.pk

        answer = client_of(owner).delete(f"{self.path(shop)}/{staff.pk}")

        assert (answer.status_code, answer.json()) == (200, True)
        staff.refresh_from_db()
        assert staff.role == Role.CUSTOMER
        me = by_key.get("/api/me").json()
        assert (me["shop_id"], me["permissions"], me["shops"]) == (None, ["customer"], [])
        assert by_key.get(orders).json()["data"] == []
        assert by_key.post("/api/products", product, content_type="application/json").status_code == 403
        assert client_of(None).get("/api/me", headers={"Authorization": f"Bearer {access}"}).status_code == 401
        assert client_of(owner).get(self.path(shop)).json()["data"] == []
        assert client_of(owner).delete(f"{self.path(shop)}/{staff.pk}").status_code == 404

    def test_removed_staff_can_be_invited_again(self, client_of: ApiClient, owner: User, shop: Shop, staff: User):
        client_of(owner).delete(f"{self.path(shop)}/{staff.pk}")
        token = link_of(invite(shop, staff.email))

        accept_invitation(token=token, name="", password=PASSWORD, address="192.0.2.1", now=timezone.now())

        staff.refresh_from_db()
        assert (staff.role, staff.shop_place.shop) == (Role.STAFF, shop)

    def test_only_the_owner_and_super_admins_remove_staff_of_a_shop(
        self, client_of: ApiClient, owner: User, admin: User, shop: Shop, other_shop: Shop, staff: User
    ):
        second = make_user(Role.STAFF, "second")
        ShopStaff.objects.create(user=second, shop=shop)

        assert client_of(staff).delete(f"{self.path(shop)}/{second.pk}").status_code == 403
        assert client_of(other_shop.owner).delete(f"{self.path(shop)}/{second.pk}").status_code == 404
        assert client_of(other_shop.owner).delete(f"{self.path(other_shop)}/{second.pk}").status_code == 404
        for user_id in (owner.pk, 2**63 - 1):
            assert client_of(owner).delete(f"{self.path(shop)}/{user_id}").status_code == 404
        assert ShopStaff.objects.count() == 2
        assert client_of(admin).delete(f"{self.path(shop)}/{second.pk}").status_code == 200

    def test_a_role_that_is_no_longer_staff_stays_what_it_is(self, client_of: ApiClient, owner: User, shop: Shop):
        promoted = make_user(Role.STORE_OWNER, "promoted")
        ShopStaff.objects.create(user=promoted, shop=shop)

        assert client_of(owner).delete(f"{self.path(shop)}/{promoted.pk}").status_code == 200

        promoted.refresh_from_db()
        assert promoted.role == Role.STORE_OWNER


class TestInvitations:
    def path(self, shop: Shop) -> str:
        return f"/api/shops/{shop.pk}/invitations"

    def test_an_owner_lists_the_open_invitations(self, client_of: ApiClient, owner: User, shop: Shop, other_shop: Shop):
        invite(shop, "old@example.com", age=timedelta(days=3, seconds=1))
        first, second = invite(shop, "first@example.com"), invite(shop, "second@example.com")
        invite(other_shop, "elsewhere@example.com")
        StaffInvitation.objects.filter(pk=invite(shop, "there@example.com").pk).update(accepted_at=timezone.now())

        page = client_of(owner).get(self.path(shop)).json()

        assert [(row["id"], row["email"]) for row in page["data"]] == [
            (second.pk, "second@example.com"),
            (first.pk, "first@example.com"),
        ]
        assert set(page["data"][0]) == {"id", "shop_id", "email", "created_at", "expires_at"}

    def test_a_withdrawn_invitation_and_its_link_are_invalid(self, client_of: ApiClient, owner: User, shop: Shop):
        invitation = invite(shop, "first@example.com")
        token, path = link_of(invitation), f"{self.path(shop)}/{invitation.pk}"

        answer = client_of(owner).delete(path)

        assert (answer.status_code, answer.json()) == (200, True)
        assert client_of(owner).get(self.path(shop)).json()["data"] == []
        with pytest.raises(InvalidLink):
            accept_invitation(token=token, name="N", password=PASSWORD, address="192.0.2.1", now=timezone.now())
        assert client_of(owner).delete(path).status_code == 404
        assert not ShopStaff.objects.exists()

    def test_accepted_and_other_shops_invitations_are_not_withdrawn(
        self, client_of: ApiClient, owner: User, staff: User, admin: User, shop: Shop, other_shop: Shop
    ):
        accepted, open_one = invite(shop, "there@example.com"), invite(shop, "open@example.com")
        StaffInvitation.objects.filter(pk=accepted.pk).update(accepted_at=timezone.now())

        assert client_of(owner).delete(f"{self.path(shop)}/{accepted.pk}").status_code == 404
        assert client_of(staff).delete(f"{self.path(shop)}/{open_one.pk}").status_code == 403
        assert client_of(other_shop.owner).delete(f"{self.path(other_shop)}/{open_one.pk}").status_code == 404
        assert StaffInvitation.objects.count() == 2
        assert client_of(admin).delete(f"{self.path(shop)}/{open_one.pk}").status_code == 200


@pytest.mark.parametrize("rows", [10, 1000])
def test_c7_the_lists_take_as_many_queries_at_ten_rows_as_at_a_thousand(
    client_of: ApiClient, owner: User, shop: Shop, rows: int, django_assert_num_queries: DjangoAssertNumQueries
):
    users = User.objects.bulk_create(
        User(email=f"s{number}@example.com", name="S", role=Role.STAFF) for number in range(rows)
    )
    ShopStaff.objects.bulk_create(ShopStaff(user=user, shop=shop) for user in users)
    now = timezone.now()
    times = {"created_at": now, "expires_at": now + timedelta(days=1), "invited_by": owner}
    StaffInvitation.objects.bulk_create(
        StaffInvitation(shop=shop, email=user.email, nonce=f"{number:032x}", **times)
        for number, user in enumerate(users)
    )
    client = client_of(owner)
    client.get("/api/me")  # records the use of the key
    counted = rows > 10  # if there is more than one page

    for path in ("staff", "invitations"):
        with django_assert_num_queries(3 + counted):  # key, shop, rows
            assert len(client.get(f"/api/shops/{shop.pk}/{path}", {"limit": 10}).json()["data"]) == 10


def test_in_the_admin_invitations_are_found_and_withdrawn(admin: User, shop: Shop, other_shop: Shop):
    first, second = invite(shop, "first@example.com"), invite(other_shop, "second@example.com")
    StaffInvitation.objects.filter(pk=second.pk).update(accepted_at=timezone.now())
    site, path = Client(), "/admin/commerce_shops/staffinvitation/"
    site.force_login(admin)

    found = site.get(path, {"q": "first@"}).content.decode()
    assert ("first@example.com" in found, "second@example.com" in found) == (True, False)
    assert first.nonce.hex not in site.get(f"{path}{first.pk}/change/").content.decode().replace("-", "")
    chosen = {"action": "withdraw", "_selected_action": [first.pk, second.pk]}
    page = site.post(path, chosen, follow=True).content.decode()

    assert list(StaffInvitation.objects.all()) == [second]
    assert "accepted or has expired" in page
    assert site.get(f"{path}add/").status_code == 403
