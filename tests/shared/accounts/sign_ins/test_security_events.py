"""Security events: changes of accounts are in the exported audit log, and sign-ins in the log, without secrets."""

import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from structlog.testing import capture_logs

from shared.accounts.email.links import LinkPurpose, create_link_token
from shared.accounts.models import ApiKey, SignIn, User
from shared.accounts.recovery import create_or_promote_staff, hash_new_password
from shared.accounts.services import create_api_key, revoke_api_key
from tests.shared.accounts.conftest import PASSWORD, signed_in

NEW_PASSWORD = "another good passphrase"
USERS = "/admin/accounts/user/"
KEYS = "/admin/accounts/apikey/"


def in_admin(admin: User, path: str, **form: Any) -> None:
    client = Client()
    client.force_login(admin)
    assert client.post(path, form).status_code == 302


def over_api(path: str, token: str = "", method: str = "POST", **body: str) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    client = Client(headers=headers, raise_request_exception=False)
    return client.generic(method, path, json.dumps(body), content_type="application/json").status_code


def user_form(user: User, **changes: Any) -> dict[str, Any]:
    form = {"email": user.email, "name": user.name, "role": user.role, "is_active": "on"} | changes
    return {name: value for name, value in form.items() if value is not None}


def exported() -> list[dict[str, Any]]:
    output = io.StringIO()
    call_command("export_audit", stdout=output)
    return [json.loads(line) for line in output.getvalue().splitlines()]


def make_key(user: User) -> ApiKey:
    return create_api_key(user=user, name="laptop", now=timezone.now())[0]


def reset(admin: User, user: User) -> None:
    link = create_link_token(user, LinkPurpose.RESET_PASSWORD, now=timezone.now())
    answer = Client().post(
        "/api/reset-password", {"token": link, "password": NEW_PASSWORD}, content_type="application/json"
    )
    assert answer.status_code == 200


def change_own_password(admin: User, user: User) -> None:
    passwords = {"oldPassword": PASSWORD, "newPassword": NEW_PASSWORD}
    assert over_api("/api/change-password", signed_in(user).access, **passwords) == 200


def end_session(admin: User, user: User) -> None:
    access = signed_in(user).access
    signed_in(user)
    other = SignIn.objects.latest("created_at")
    assert over_api(f"/api/sessions/{other.pk}", access, "DELETE") == 200


def reuse_refresh_token(admin: User, user: User) -> None:
    stolen = signed_in(user).refresh
    assert over_api("/api/token/refresh", refresh=stolen) == 200
    SignIn.objects.update(refreshed_at=timezone.now() - timedelta(minutes=1))
    assert [over_api("/api/token/refresh", refresh=stolen) for _ in range(3)] == [401, 401, 401]


def promote(admin: User, user: User) -> None:
    password = hash_new_password(email=user.email, name=user.name, password=NEW_PASSWORD)
    create_or_promote_staff(
        email=user.email, name=user.name, password_hash=password, may_run_inference=False, now=timezone.now()
    )


def set_password(admin: User, user: User) -> None:
    in_admin(admin, f"{USERS}{user.pk}/password/", password1=NEW_PASSWORD, password2=NEW_PASSWORD)


def change_admins_password(admin: User, user: User) -> None:
    form = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    in_admin(admin, "/admin/password_change/", **form)


def revoke_twice(admin: User, user: User) -> None:
    key = make_key(user)
    for _ in range(2):
        revoke_api_key(api_key=key, now=timezone.now())


def deactivate(admin: User, user: User) -> None:
    in_admin(admin, USERS, action="deactivate", _selected_action=[user.pk])


def change(**changes: Any) -> Callable[[User, User], None]:
    return lambda admin, user: in_admin(admin, f"{USERS}{user.pk}/change/", **user_form(user, **changes))


def activate(admin: User, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)
    change()(admin, user)


# What is done, and the events of it: the action and who did it.
EVENTS: dict[str, tuple[Callable[[User, User], Any], list[tuple[str, str]]]] = {
    "key made in the admin": (
        lambda admin, user: in_admin(admin, f"{KEYS}add/", user=user.pk, name="laptop"),
        [("api_key_created", "admin")],
    ),
    "key revoked in the admin": (
        lambda admin, user: in_admin(admin, KEYS, action="revoke", _selected_action=[make_key(user).pk]),
        [("api_key_created", ""), ("api_key_revoked", "admin")],
    ),
    "key revoked twice by an operator": (revoke_twice, [("api_key_created", ""), ("api_key_revoked", "")]),
    "own password": (change_own_password, [("password_changed", "user")]),
    "own password in the admin": (change_admins_password, [("password_changed", "admin")]),
    "password set in the admin": (set_password, [("password_changed", "admin")]),
    "password reset": (reset, [("password_reset", "user")]),
    "session ended": (end_session, [("session_revoked", "user")]),
    "refresh token reused": (reuse_refresh_token, [("refresh_token_reused", "")]),
    "role changed": (change(role="STAFF"), [("role_changed", "admin")]),
    "invited": (promote, [("role_changed", "user"), ("password_changed", "user")]),
    "deactivated by the form": (change(is_active=None), [("deactivated", "admin")]),
    "deactivated by the action": (deactivate, [("deactivated", "admin")]),
    "activated": (activate, [("activated", "admin")]),
    "name changed": (change(name="Countess"), []),
    "e-mail address changed": (change(email="countess@example.com"), [("email_changed", "admin")]),
}


@pytest.mark.parametrize("name", EVENTS)
def test_security_events_are_exported_without_secrets(admin_user: User, user: User, name: str) -> None:
    do, expected = EVENTS[name]

    do(admin_user, user)

    events = exported()
    people = {"admin": admin_user.pk, "user": user.pk, "": None}
    assert [(event["action"], event["actor_id"]) for event in events] == [
        (f"accounts.{action}", people[actor]) for action, actor in expected
    ]
    target = admin_user.pk if do is change_admins_password else user.pk
    assert {(event["target_type"], event["target_id"]) for event in events} <= {("User", target)}
    details = json.dumps([event["details"] for event in events])
    for secret in (PASSWORD, NEW_PASSWORD, user.email, *secrets_of(user), *secrets_of(admin_user)):
        assert secret not in details


def secrets_of(user: User) -> list[str]:
    user.refresh_from_db()
    hashes = [key.secret_hash for key in user.api_keys.all()]
    return [user.password, *hashes, *(str(sign_in.refresh_id) for sign_in in user.sign_ins.all())]


def test_key_events_name_the_key_and_role_changes_both_roles(admin_user: User, user: User) -> None:
    key = make_key(user)
    change(role="STAFF")(admin_user, user)

    made, changed = [event["details"] for event in exported()]
    assert made == {"key_id": key.pk, "prefix": key.prefix, "permissions": None, "expires_at": None}
    assert changed == {"before": "CUSTOMER", "after": "STAFF"}


def test_sign_ins_and_refusals_are_lines_of_the_log_and_not_in_the_table(user: User) -> None:
    with capture_logs() as lines:
        for email, password in [(user.email, PASSWORD), (user.email, "wrong"), ("nobody@example.com", "wrong")]:
            over_api("/api/token", email=email, password=password)

    assert [line for line in lines if line["event"].startswith("sign_in_")] == [
        {"event": "sign_in_accepted", "factor": "none", "user_id": user.pk, "log_level": "info"},
        {"event": "sign_in_refused", "factor": "password", "user_id": user.pk, "log_level": "warning"},
        {"event": "sign_in_refused", "factor": "password", "user_id": None, "log_level": "warning"},
    ]
    assert exported() == []
