"""The first steps of a shop owner: who may take them, and what each does."""

import pytest
from django.test import Client

from commerce.catalog.models import Product, ProductType
from commerce.shops.models import Shop, StaffInvitation
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import confirmed, make_user

PAGE, DASHBOARD = "/admin/first-steps/", "/admin/dashboard/"


@pytest.fixture
def owner(db: None) -> User:
    return confirmed(make_user(Role.STORE_OWNER))


@pytest.fixture
def browser(owner: User) -> Client:
    client = Client()
    client.force_login(owner)
    return client


def test_an_owner_opens_a_shop_adds_a_product_and_invites_staff(owner: User, browser: Client):
    kind = ProductType.objects.create(name="Heim", slug="heim", language="de")
    assert "0 of 3 done" in browser.get(DASHBOARD).content.decode()

    assert browser.post(PAGE, {"step": "shop", "name": "Lamps", "description": "Light"}).status_code == 302
    assert browser.post(PAGE, {"step": "shop", "name": "Lamps"}).status_code == 302  # sent twice
    shop = Shop.objects.get(owner=owner)
    assert (shop.name, shop.description, shop.is_active) == ("Lamps", "Light", False)
    page = browser.get(PAGE).content.decode()
    assert "1 of 3 done" in page
    assert "waiting until a super admin activates it" in page

    product = {
        "step": "product",
        "name": "Lampe",
        "type": kind.pk,
        "price": "12.50",
        "quantity": "3",
        "is_offered": "on",
    }
    assert browser.post(PAGE, product).status_code == 302
    made = Product.objects.get(shop=shop)
    assert (made.price, made.quantity, made.status, made.language) == (1250, 3, "publish", "de")
    assert "of 3 done" not in browser.get(DASHBOARD).content.decode()  # an owner may work alone

    assert browser.post(PAGE, {"step": "staff", "email": "colleague@example.com"}).status_code == 302
    assert StaffInvitation.objects.get(shop=shop).email == "colleague@example.com"
    assert "3 of 3 done" in browser.get(PAGE).content.decode()


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"step": "shop", "name": ""}, "This field is required."),
        ({"step": "product", "name": "Lamp", "type": "0", "price": "1", "quantity": "1"}, "valid choice"),
        (
            {"step": "product", "name": "Lamp", "type": "1", "price": "1.234", "quantity": "1"},
            "at most 2 decimal places",
        ),
        (
            {"step": "product", "name": "Lamp", "type": "1", "price": "-1", "quantity": "1"},
            "greater than or equal to 0",
        ),
        (
            {"step": "product", "name": "Lamp", "type": "1", "price": "1e9999999", "quantity": "1"},
            "no more than 20 digits",
        ),
        ({"step": "staff", "email": "nobody"}, "Enter a valid email address."),
    ],
)
def test_a_wrong_field_is_named_and_keeps_what_was_typed(
    owner: User, browser: Client, values: dict[str, str], error: str
):
    if values["step"] != "shop":
        Shop.objects.create(owner=owner, name="Lamps", slug="lamps")
    ProductType.objects.create(pk=1, name="Home", slug="home")
    answer = browser.post(PAGE, values)
    assert answer.status_code == 422
    assert error in answer.content.decode()
    assert not Product.objects.exists()
    assert not StaffInvitation.objects.exists()


def test_what_a_service_refuses_is_shown(owner: User, browser: Client):
    owner.email_verified_at = None
    owner.save()
    shop = Shop.objects.create(owner=owner, name="Lamps", slug="lamps")
    assert "Confirm your e-mail address" in browser.get(PAGE).content.decode()
    answer = browser.post(PAGE, {"step": "staff", "email": "colleague@example.com"})
    assert answer.status_code == 422
    assert not StaffInvitation.objects.filter(shop=shop).exists()


def test_steps_without_a_shop_change_nothing(browser: Client):
    ProductType.objects.create(pk=1, name="Home", slug="home")
    values = {"step": "product", "name": "Lamp", "type": "1", "price": "1", "quantity": "1"}
    assert browser.post(PAGE, values).status_code == 422
    assert not Product.objects.exists()


@pytest.mark.parametrize(
    ("role", "status"), [(Role.STAFF, 403), (Role.CUSTOMER, 403), (Role.MODERATOR, 403), (Role.SUPER_ADMIN, 200)]
)
def test_the_page_is_for_owners(db: None, role: Role, status: int):
    client = Client(raise_request_exception=False)
    client.force_login(make_user(role))
    assert client.get(PAGE).status_code == status
    assert client.post(PAGE, {"step": "shop", "name": "Lamps"}).status_code == (302 if status == 200 else 403)
    assert Shop.objects.exists() == (status == 200)
    assert Client().get(PAGE).headers["Location"].startswith("/admin/dashboard/sign-in/")


def test_a_form_of_another_site_opens_no_shop(owner: User):
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    assert client.post(PAGE, {"step": "shop", "name": "Lamps"}).status_code == 403
    assert not Shop.objects.exists()
