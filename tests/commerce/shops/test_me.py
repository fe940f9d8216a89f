"""GET /api/me."""

from django.utils import timezone

from commerce.addresses.models import Address
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.conftest import ApiClient
from tests.commerce.orders.factories import buy, make_goods


def me(client_of: ApiClient, user: User) -> dict[str, object]:
    answer = client_of(user).get("/api/me")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def test_a_customer_gets_their_own_record(client_of: ApiClient, customer: User):
    assert me(client_of, customer) == {
        "id": customer.pk,
        "name": "some CUSTOMER",
        "email": "some-customer@example.com",
        "is_active": True,
        "email_verified_at": None,
        "shop_id": None,
        "permissions": ["customer"],
        "role": "CUSTOMER",
        "address": [],
        "shops": [],
        "managed_shop": None,
        "profile": {"customer_id": customer.pk, "contact": None},
        "storage": {
            "max_bytes": 50 * 1024 * 1024,
            "max_files": 200,
            "remaining_bytes": 50 * 1024 * 1024,
            "remaining_files": 200,
            "shops": [],
        },
    }


def test_the_record_has_the_users_own_addresses(client_of: ApiClient, customer: User, admin: User):
    now = timezone.now()
    fields = {"title": "Home", "type": "billing", "address": {"city": "Oslo"}, "created_at": now, "updated_at": now}
    Address.objects.create(customer=admin, **fields)
    own = Address.objects.create(customer=customer, **fields)

    told = me(client_of, customer)["address"][0]  # type: ignore[index]

    assert (told["id"], told["address"], told["customer_id"]) == (own.pk, {"city": "Oslo"}, customer.pk)


def test_an_owner_gets_their_shops(client_of: ApiClient, owner: User, shop: Shop):
    told = me(client_of, owner)

    assert told["shops"] == [
        {
            "id": shop.pk,
            "name": "Corner",
            "slug": "corner",
            "description": "",
            "is_active": True,
            "owner_id": owner.pk,
            "logo": None,
            "cover_image": None,
            "address": {},
            "settings": {},
            "orders_count": 0,
            "products_count": 0,
            "created_at": shop.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "updated_at": shop.updated_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
    ]
    assert told["shop_id"] is None
    assert told["permissions"] == ["store_owner", "customer"]


def test_staff_get_the_shop_they_work_in(client_of: ApiClient, staff: User, shop: Shop):
    told = me(client_of, staff)

    assert told["shop_id"] == shop.pk
    assert [shop["id"] for shop in told["shops"]] == [shop.pk]  # type: ignore[attr-defined]
    assert told["managed_shop"] == told["shops"][0]  # type: ignore[index]
    assert told["permissions"] == ["staff", "customer"]


def test_a_super_admin_has_the_role_and_no_shop(client_of: ApiClient, admin: User, shop: Shop):
    told = me(client_of, admin)

    assert (told["role"], told["shop_id"], told["shops"]) == ("SUPER_ADMIN", None, [])
    assert told["permissions"] == ["super_admin", "store_owner", "customer"]


def test_the_profile_has_the_contact_of_the_last_order_with_one(client_of: ApiClient, customer: User, shop: Shop):
    lamp = make_goods(shop)
    for contact in ("+353 1", "+353 2", ""):
        buy(customer, (lamp, 1), customer_contact=contact)

    assert me(client_of, customer)["profile"] == {"customer_id": customer.pk, "contact": "+353 2"}


def test_an_anonymous_user_gets_401(client_of: ApiClient):
    answer = client_of(None).get("/api/me")

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["code"] == "not_authenticated"
