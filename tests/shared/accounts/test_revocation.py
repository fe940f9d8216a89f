"""Revoked credentials are refused from the next request."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.db.models.deletion import ProtectedError
from django.test import Client
from django.utils import timezone

from shared.accounts.models import SignIn, User
from shared.accounts.roles import Role
from shared.accounts.services import (
    change_password,
    change_user,
    create_api_key,
    deactivate_user,
    refresh_tokens,
    set_password,
)
from shared.api.errors import ApiError, ValidationFailed
from tests.shared.accounts.conftest import PASSWORD, is_accepted, make_user, opens, signed_in

NEW_PASSWORD = "another good passphrase"


def set_password_by_django_form(user: User) -> None:
    """Set the password as Django's forms and `changepassword` do."""
    user.set_password(NEW_PASSWORD)
    user.save()


def change_role(user: User) -> None:
    change_user(user=user, name=user.name, email=user.email, role=Role.CUSTOMER, is_active=True)


CHANGES: dict[str, Callable[[User], None]] = {
    "password change": lambda user: change_password(user=user, old=PASSWORD, new=NEW_PASSWORD),
    "password set by an administrator": lambda user: set_password(user=user, password=NEW_PASSWORD),
    "password set by Django's own forms": set_password_by_django_form,
    "deactivation": lambda user: deactivate_user(user=user),
    "role removal": change_role,
}


@pytest.mark.django_db
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a3_old_access_and_refresh_tokens_are_refused_from_the_next_request(change: Callable[[User], None]) -> None:
    user = make_user(Role.STORE_OWNER)
    pairs = [signed_in(user), signed_in(user)]
    assert opens("/who", pairs[0].access) == opens("/who-async", pairs[0].access) == 200
    change(User.objects.get(pk=user.pk))
    for pair in pairs:
        assert opens("/who", pair.access) == opens("/who-async", pair.access) == 401
        with pytest.raises(ApiError):
            refresh_tokens(refresh=pair.refresh, now=timezone.now())


def test_a3_restoring_a_role_does_not_restore_the_tokens(user: User) -> None:
    pair = signed_in(user)
    for role in (Role.STAFF, Role.CUSTOMER):
        change_user(user=user, name=user.name, email=user.email, role=role, is_active=True)
    assert not is_accepted(pair.access)


def test_a3_a_deactivated_users_keys_are_refused(user: User) -> None:
    raw = create_api_key(user=user, name="k", now=timezone.now())[1]
    assert is_accepted(raw)
    deactivate_user(user=user)
    assert not is_accepted(raw)


def test_a3_logout_revokes_its_own_sign_in_only(user: User) -> None:
    pair, other = signed_in(user), signed_in(user)
    answer = Client().post(
        "/api/logout", content_type="application/json", headers={"Authorization": f"Bearer {pair.access}"}
    )
    assert (answer.status_code, answer.json()) == (200, True)
    assert not is_accepted(pair.access)
    with pytest.raises(ApiError):
        refresh_tokens(refresh=pair.refresh, now=timezone.now())
    assert is_accepted(other.access)


def test_a3_logout_with_a_refresh_token_revokes_that_sign_in_too(user: User) -> None:
    pair, other = signed_in(user), signed_in(user)
    headers = {"Authorization": f"Bearer {pair.access}"}
    Client().post("/api/logout", {"refresh": other.refresh}, content_type="application/json", headers=headers)
    assert not is_accepted(pair.access)
    assert not is_accepted(other.access)


def test_a3_logout_cannot_revoke_the_sign_in_of_another_user(user: User) -> None:
    pair, victim = signed_in(user), signed_in(make_user(email="victim@example.com"))
    headers = {"Authorization": f"Bearer {pair.access}"}
    for refresh in (victim.refresh, "rubbish"):
        answer = Client().post("/api/logout", {"refresh": refresh}, content_type="application/json", headers=headers)
        assert answer.status_code in (200, 401)  # the first call revoked the caller's own sign-in
    assert is_accepted(victim.access)


def test_an_edit_of_name_or_email_keeps_the_tokens(user: User) -> None:
    pair = signed_in(user)
    change_user(user=user, name="Countess", email="ada2@example.com", role=Role.CUSTOMER, is_active=True)
    assert is_accepted(pair.access)
    assert User.objects.get(pk=user.pk).email == "ada2@example.com"


def test_a_wrong_old_password_keeps_the_tokens(user: User) -> None:
    pair = signed_in(user)
    with pytest.raises(ValidationFailed):
        change_password(user=user, old="wrong", new=NEW_PASSWORD)
    assert is_accepted(pair.access)


def test_a_weak_new_password_is_an_error_of_its_field(user: User) -> None:
    with pytest.raises(ValidationFailed) as caught:
        change_password(user=user, old=PASSWORD, new="12345")
    assert set(caught.value.problem.errors or ()) == {"new"}


def test_the_last_super_admin_cannot_be_deactivated(admin_user: User) -> None:
    with pytest.raises(ValidationFailed):
        deactivate_user(user=admin_user)
    other = make_user(Role.SUPER_ADMIN, "second@example.com")
    deactivate_user(user=other)
    assert User.objects.get(pk=admin_user.pk).is_active
    assert not User.objects.get(pk=other.pk).is_active


def test_a_user_with_keys_cannot_be_deleted(user: User) -> None:
    create_api_key(user=user, name="k", now=timezone.now())
    with pytest.raises(ProtectedError):
        user.delete()
    assert SignIn.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a2_one_of_two_admins_who_demote_each_other_stays() -> None:
    admins = [make_user(Role.SUPER_ADMIN, email) for email in ("ada@example.com", "bob@example.com")]
    for _ in range(10):
        User.objects.update(role=Role.SUPER_ADMIN)
        barrier = threading.Barrier(2, timeout=30)

        def demote(user: User, barrier: threading.Barrier = barrier) -> bool:
            try:
                barrier.wait()
                change_role(user)
            except ValidationFailed:
                return False
            finally:
                connection.close()
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(demote, admins)) == [False, True]
        assert User.objects.filter(role=Role.SUPER_ADMIN).count() == 1
