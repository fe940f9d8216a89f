"""Invitations of staff by signed links."""

import re
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone
from pytest_django import Settings

from commerce.config.celery import PERIODIC_TASKS
from commerce.shops import invitations, tasks
from commerce.shops.invitations import accept_invitation, invite_staff
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.email.links import InvalidLink
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import sign_in
from tests.commerce.conftest import ApiClient, confirmed, make_user
from tests.shared.accounts.emails import sent_emails, token_in

PASSWORD = "a good long passphrase"
EMAIL = "newcomer@example.com"


@pytest.fixture
def other_shop(db: None) -> Shop:
    return Shop.objects.create(owner=confirmed(make_user(Role.STORE_OWNER, "other")), name="Other", slug="other")


def invite(client_of: ApiClient, user: User | None, shop: Shop, email: str = EMAIL) -> Any:
    return client_of(user).post(f"/api/shops/{shop.pk}/staff", {"email": email}, content_type="application/json")


def accept(client_of: ApiClient, token: str, **changes: str) -> Any:
    body = {"token": token, "name": "New", "password": PASSWORD} | changes
    return client_of(None).post("/api/accept-invitation", body, content_type="application/json")


@pytest.fixture
def link_to(django_capture_on_commit_callbacks: Any) -> Any:
    """Return the token of an invitation's e-mail."""

    def send(shop: Shop, email: str = EMAIL, age: timedelta = timedelta()) -> str:
        with django_capture_on_commit_callbacks(execute=True):
            invite_staff(actor=shop.owner, shop_id=shop.pk, email=email, now=timezone.now() - age)
        return token_in(sent_emails()[-1])

    return send


def test_an_invited_person_becomes_staff_of_the_shop(
    client_of: ApiClient, owner: User, shop: Shop, django_capture_on_commit_callbacks: Any
):
    with django_capture_on_commit_callbacks(execute=True):
        answer = invite(client_of, owner, shop, " Newcomer@Example.com ")

    assert answer.status_code == 201
    assert set(answer.json()) == {"id", "shop_id", "email", "created_at", "expires_at"}
    (message,) = sent_emails()
    assert message.to == [EMAIL]
    assert "Corner" in message.subject
    answer = accept(client_of, token_in(message))
    assert (answer.status_code, answer.json()) == (200, True)
    place = ShopStaff.objects.get()
    assert (place.shop, place.user.email, place.user.name, place.user.role) == (shop, EMAIL, "New", Role.STAFF)
    assert sign_in(email=EMAIL, password=PASSWORD, address="192.0.2.1", now=timezone.now())


def test_a_link_works_once_even_after_the_staff_was_removed(client_of: ApiClient, shop: Shop, link_to: Any):
    token = link_to(shop)
    assert accept(client_of, token).status_code == 200
    ShopStaff.objects.all().delete()
    answer = accept(client_of, token)
    assert (answer.status_code, set(answer.json()["errors"])) == (422, {"token"})
    assert not ShopStaff.objects.exists()


def test_only_the_latest_invitation_link_works(client_of: ApiClient, shop: Shop, link_to: Any):
    first, second = link_to(shop), link_to(shop)
    assert accept(client_of, first).status_code == 422
    assert accept(client_of, second).status_code == 200
    assert StaffInvitation.objects.count() == 1


def test_a_link_ends_after_three_days(client_of: ApiClient, shop: Shop, link_to: Any):
    token = link_to(shop, age=timedelta(days=3, seconds=1))
    assert accept(client_of, token).status_code == 422
    with pytest.raises(InvalidLink):
        accept_invitation(token="x", name="N", password=PASSWORD, address="192.0.2.1", now=timezone.now())


def test_a_weak_password_leaves_the_invitation_valid(client_of: ApiClient, shop: Shop, link_to: Any):
    token = link_to(shop)
    assert set(accept(client_of, token, password="12345678").json()["errors"]) == {"password"}
    assert accept(client_of, token).status_code == 200


def test_a_customer_becomes_staff(client_of: ApiClient, shop: Shop, customer: User, link_to: Any):
    assert accept(client_of, link_to(shop, customer.email)).status_code == 200
    customer.refresh_from_db()
    assert (customer.role, customer.shop_place.shop) == (Role.STAFF, shop)


def test_owners_and_staff_of_other_shops_cannot_be_invited(
    client_of: ApiClient, shop: Shop, other_shop: Shop, staff: User, link_to: Any
):
    for user in (shop.owner, staff):
        password = user.password
        assert accept(client_of, link_to(other_shop, user.email)).status_code == 409
        user.refresh_from_db()
        assert user.password == password
    assert staff.shop_place.shop == shop
    assert not StaffInvitation.objects.exclude(accepted_at=None).exists()


def test_a6_known_and_unknown_emails_get_the_same_response(
    client_of: ApiClient, owner: User, shop: Shop, customer: User, admin: User
):
    answers = [invite(client_of, owner, shop, email) for email in (EMAIL, customer.email, admin.email)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({frozenset(answer.json()) for answer in answers}) == 1


def test_only_the_owner_and_a_super_admin_invite(
    client_of: ApiClient, shop: Shop, other_shop: Shop, owner: User, staff: User, customer: User, admin: User
):
    asked = {"nobody": None, "customer": customer, "staff": staff, "other": other_shop.owner, "admin": admin}
    statuses = {name: invite(client_of, user, shop).status_code for name, user in asked.items()}
    assert statuses == {"nobody": 401, "customer": 403, "staff": 403, "other": 404, "admin": 201}


def test_invitations_are_limited_per_owner_and_per_inbox(
    client_of: ApiClient, owner: User, shop: Shop, other_shop: Shop, settings: Settings
):
    settings.CONTENT_WRITE_LIMIT = 5
    statuses = [invite(client_of, owner, shop, f"{number}@example.com").status_code for number in range(7)]
    assert statuses == [201] * 5 + [429] * 2
    settings.CONTENT_WRITE_LIMIT = 100
    statuses = [invite(client_of, other_shop.owner, other_shop).status_code for _ in range(7)]
    assert statuses == [201] * 5 + [429] * 2


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Müller & Söhne (2nd)", "Müller & Söhne (2nd)"),
        ("Ben's Books Ltd.", "Ben's Books Ltd."),
        ("Corner\r\nBcc: everybody@example.com", "a shop"),
        ("Win now https://evil.example", "a shop"),
        ("Win now at evil.example", "a shop"),
        ("evil\u3002example", "a shop"),
        ("Corner\u2028You won", "a shop"),
        ("x" * 61, "a shop"),
    ],
)
def test_n8_an_invitation_has_a_checked_name_and_no_link_of_the_owner(shop: Shop, link_to: Any, name: str, shown: str):
    Shop.objects.update(name=name)
    token = link_to(shop)
    (message,) = mail.outbox
    assert message.subject == f"Invitation to work at {shown}"
    assert message.recipients() == [EMAIL]
    links = re.findall(r"\S*://\S*", str(message.body))
    assert links == [f"http://localhost:3000/join?token={token.replace(':', '%3A')}"]
    assert "evil" not in str(message.body)


def test_n8_an_owner_without_a_confirmed_email_invites_nobody(client_of: ApiClient, owner: User, shop: Shop):
    User.objects.update(email_verified_at=None)
    assert invite(client_of, owner, shop).status_code == 403
    assert sent_emails() == []
    assert not StaffInvitation.objects.exists()


def test_n8_a_shop_invites_fifty_people_a_day(client_of: ApiClient, owner: User, shop: Shop):
    statuses = Counter(invite(client_of, owner, shop, f"{number}@example.com").status_code for number in range(60))
    assert statuses == {201: 50, 429: 10}
    assert StaffInvitation.objects.count() == 50


def test_expired_invitations_are_deleted_every_hour(shop: Shop, link_to: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(invitations, "MAX_PER_TRANSACTION", 2)
    accepted = link_to(shop, "accepted@example.com", timedelta(days=2))
    accept_invitation(token=accepted, name="New", password=PASSWORD, address="192.0.2.1", now=timezone.now())
    for number in range(5):
        link_to(shop, f"{number}@example.com", timedelta(days=3))
    link_to(shop, "open@example.com", timedelta(days=2, hours=23))
    StaffInvitation.objects.filter(accepted_at__isnull=False).update(expires_at=timezone.now())

    assert PERIODIC_TASKS[tasks.clear_invitations.name] == 3600.0
    tasks.clear_invitations()
    assert sorted(StaffInvitation.objects.values_list("email", flat=True)) == [
        "accepted@example.com",
        "open@example.com",
    ]
