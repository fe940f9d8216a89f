"""Registration of customers and store owners, and of no other role."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.authentication import authenticate
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user, set_inference_access
from shared.api.errors import ValidationFailed
from tests.shared.accounts.conftest import PASSWORD, is_accepted, make_user
from tests.shared.accounts.emails import sent_emails, token_in

pytestmark = pytest.mark.django_db

VALID = {"name": "Grace", "email": "Grace@Example.com", "password": "a long passphrase", "permission": "customer"}


def post(**changes: Any) -> Any:
    body = {key: value for key, value in (VALID | changes).items() if value is not None}
    return Client(raise_request_exception=False).post("/api/register", body, content_type="application/json")


@pytest.mark.parametrize(
    ("permission", "role"),
    [("customer", Role.CUSTOMER), ("store_owner", Role.STORE_OWNER), (None, Role.CUSTOMER)],
)
def test_registration_signs_in(permission: str | None, role: Role) -> None:
    answer = post(permission=permission)
    assert answer.status_code == 201
    user = User.objects.get()
    assert (user.email, user.name, user.role, user.is_active) == ("grace@example.com", "Grace", role, True)
    assert answer.json()["role"] == role
    assert is_accepted(answer.json()["token"])
    assert VALID["password"] not in user.password


@pytest.mark.parametrize("permission", ["staff", "super_admin"])
def test_registering_as_staff_or_super_admin_is_refused(permission: str) -> None:
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
def test_an_invalid_field_is_named_and_creates_no_user(changes: dict[str, Any], field: str) -> None:
    answer = post(**changes)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {field}
    assert not User.objects.exists()


def test_an_email_registers_once_regardless_of_case() -> None:
    make_user(email="grace@example.com")
    answer = post()
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"email"}
    assert User.objects.count() == 1


def test_the_database_refuses_a_second_user_with_the_same_email(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_invalid_token_is_ignored() -> None:
    headers = {"Authorization": "Bearer stale"}
    answer = Client().post("/api/register", VALID, content_type="application/json", headers=headers)
    assert answer.status_code == 201


def test_one_address_registers_ten_users_a_minute() -> None:
    statuses = [post(email=f"user{number}@example.com").status_code for number in range(12)]
    assert statuses == [201] * 10 + [429] * 2
    assert User.objects.count() == 10


def test_a_user_without_a_password_cannot_sign_in() -> None:
    user = create_user(email="cron@example.com", name="Cron", password=None, role=Role.STAFF, now=timezone.now())
    assert not user.has_usable_password()


def test_create_user_refuses_a_weak_password() -> None:
    with pytest.raises(ValidationFailed):
        create_user(email="a@example.com", name="A", password="12345678", role=Role.STAFF, now=timezone.now())


def sign_in_status(email: str = "grace@example.com", password: str = VALID["password"]) -> int:
    body = {"email": email, "password": password}
    return Client(raise_request_exception=False).post("/api/token", body, content_type="application/json").status_code


@pytest.mark.parametrize("mode", ["invited", "closed"])
def test_n5_nobody_registers_where_registration_is_off(settings: Settings, mode: str) -> None:
    settings.REGISTRATION = mode
    assert post().status_code == 403
    assert not User.objects.exists()


def test_n5_verified_registration_answers_alike_for_known_and_unknown_emails(settings: Settings) -> None:
    settings.REGISTRATION = "verified"
    known = make_user(email="ada@example.com")
    answers = [post(), post(email=known.email, password="another passphrase")]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(202, True)] * 2
    assert set(answers[0].headers) == set(answers[1].headers)
    to_new, to_known = sent_emails()
    assert (to_new.to, to_new.subject) == (["grace@example.com"], "Confirm your e-mail address")
    assert (to_known.to, to_known.subject) == ([known.email], "You are registered already")
    assert sign_in_status(known.email, PASSWORD) == 403, "an unconfirmed one"
    assert sign_in_status(known.email, "another passphrase") == 401

    assert sign_in_status() == 403
    assert sign_in_status(password="a wrong one") == 401
    body = {"token": token_in(to_new)}
    assert Client().post("/api/verify-email", body, content_type="application/json").status_code == 200
    assert sign_in_status() == 200


def test_n5_verified_registration_sends_one_email_in_a_resend_interval(settings: Settings) -> None:
    settings.REGISTRATION = "verified"
    assert [post().status_code for _ in range(5)] == [202] * 5
    assert len(sent_emails()) == 1
    assert User.objects.count() == 1


def test_n5_a_deactivated_user_gets_no_email_by_registering_again(settings: Settings) -> None:
    settings.REGISTRATION = "verified"
    make_user(email="grace@example.com")
    User.objects.update(is_active=False)
    assert post().status_code == 202
    assert sent_emails() == []
    assert not User.objects.get().is_active


@pytest.mark.parametrize("is_allowed", [False, True])
def test_n5_a_registered_owner_runs_no_model_unless_the_settings_or_an_admin_allow_it(
    settings: Settings, is_allowed: bool
) -> None:
    settings.REGISTERED_MAY_RUN_INFERENCE = is_allowed
    settings.REGISTERED_MONTHLY_TOKEN_LIMIT = 1000
    token = post(permission="store_owner").json()["token"]
    assert ("run_inference" in authenticate(token).permissions) is is_allowed
    user = User.objects.get()
    assert user.monthly_token_limit == 1000
    _, key = create_api_key(user=user, name="k", now=timezone.now())
    assert ("run_inference" in authenticate(key).permissions) is is_allowed
    set_inference_access(user=user, is_allowed=not is_allowed)
    assert [("run_inference" in authenticate(one).permissions) for one in (token, key)] == [not is_allowed] * 2
