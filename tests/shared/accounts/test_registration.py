"""Customers and store owners register themselves; nobody registers as more."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from shared.api.errors import ValidationFailed
from tests.shared.accounts.conftest import is_accepted, make_user

pytestmark = pytest.mark.django_db

SOUND = {"name": "Grace", "email": "Grace@Example.com", "password": "a long passphrase", "permission": "customer"}


def post(**changes: Any) -> Any:
    body = {key: value for key, value in (SOUND | changes).items() if value is not None}
    return Client(raise_request_exception=False).post("/api/register", body, content_type="application/json")


@pytest.mark.parametrize(
    ("permission", "role"),
    [("customer", Role.CUSTOMER), ("store_owner", Role.STORE_OWNER), (None, Role.CUSTOMER)],
)
def test_a_newcomer_is_signed_in(permission: str | None, role: Role) -> None:
    answer = post(permission=permission)
    assert answer.status_code == 201
    user = User.objects.get()
    assert (user.email, user.name, user.role, user.is_active) == ("grace@example.com", "Grace", role, True)
    assert answer.json()["role"] == role
    assert is_accepted(answer.json()["token"])
    assert SOUND["password"] not in user.password


@pytest.mark.parametrize("permission", ["staff", "super_admin"])
def test_staff_and_super_admin_cannot_be_asked_for(permission: str) -> None:
    assert post(permission=permission).status_code == 403
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"permission": "root"}, "permission"),
        ({"permission": "STORE_OWNER"}, "permission"),
        ({"email": "nowhere"}, "email"),
        ({"email": '"a\x0bb:c"@example.com'}, "email"),
        ({"email": '"a b"@example.com'}, "email"),
        ({"email": None}, "email"),
        ({"name": ""}, "name"),
        ({"name": "x" * 151}, "name"),
        ({"password": "short"}, "password"),
        ({"password": "password123"}, "password"),
        ({"password": "grace@example.com"}, "password"),
        ({"password": "x" * 1025}, "password"),
        ({"password": ["a long passphrase"]}, "password"),
    ],
)
def test_what_is_wrong_is_named_and_nobody_is_made(changes: dict[str, Any], field: str) -> None:
    answer = post(**changes)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {field}
    assert not User.objects.exists()


def test_an_email_is_registered_once_whatever_its_case() -> None:
    make_user(email="grace@example.com")
    answer = post()
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"email"}
    assert User.objects.count() == 1


def test_of_two_at_once_the_database_lets_one_through(monkeypatch: pytest.MonkeyPatch) -> None:
    make_user(email="grace@example.com")
    monkeypatch.setattr(User.objects, "normalize_email", lambda email: email.lower())
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create(email="grace@example.com", name="Twin")
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create(email="Grace@example.com", name="Twin")


def test_extra_fields_change_nothing() -> None:
    answer = post(role="SUPER_ADMIN", is_staff=True, is_superuser=True, is_active=False, token_version=7, id=99)
    assert answer.status_code == 201
    user = User.objects.get()
    assert (user.role, user.is_staff, user.is_superuser, user.is_active) == (Role.CUSTOMER, False, False, True)
    assert user.pk != 99


def test_a_stale_token_is_ignored() -> None:
    headers = {"Authorization": "Bearer stale"}
    answer = Client().post("/api/register", SOUND, content_type="application/json", headers=headers)
    assert answer.status_code == 201


def test_one_address_registers_ten_times_a_minute() -> None:
    statuses = [post(email=f"user{number}@example.com").status_code for number in range(12)]
    assert statuses == [201] * 10 + [429] * 2
    assert User.objects.count() == 10


def test_a_user_made_without_a_password_cannot_sign_in() -> None:
    user = create_user(email="cron@example.com", name="Cron", password=None, role=Role.STAFF, now=timezone.now())
    assert not user.has_usable_password()


def test_a_weak_password_is_refused_for_users_made_by_others_too() -> None:
    with pytest.raises(ValidationFailed):
        create_user(email="a@example.com", name="A", password="12345678", role=Role.STAFF, now=timezone.now())
