"""The list of a user's sign-ins, the end of one of them, and the deletion of what has expired."""

import uuid
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.utils import timezone

from shared.accounts import tasks
from shared.accounts.authentication import authenticate
from shared.accounts.models import SignIn, SignInNetwork, User
from shared.accounts.services import change_password, refresh_tokens, sign_out
from shared.api.idempotency.store import try_claim_key
from shared.api.models import KeyedRequest
from tests.shared.accounts.conftest import PASSWORD, is_accepted, make_user, opens, signed_in

SESSIONS = "/api/sessions"
HOUR = timedelta(hours=1)


def client(token: str) -> Client:
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {token}"})


def listed(token: str) -> list[dict[str, Any]]:
    answer = client(token).get(SESSIONS)
    assert answer.status_code == 200
    sessions: list[dict[str, Any]] = answer.json()
    return sessions


def test_a_user_sees_their_sign_ins_and_which_one_is_the_present(user: User) -> None:
    phone, laptop = signed_in(user), signed_in(user)
    signed_in(make_user(email="other@example.com"))
    sessions = listed(laptop.access)
    assert [session["is_current"] for session in sessions] == [True, False]
    assert set(sessions[0]) == {"id", "created_at", "refreshed_at", "expires_at", "is_current"}
    assert {session["id"] for session in sessions} == {str(pk) for pk in user.sign_ins.values_list("pk", flat=True)}
    assert [session["is_current"] for session in listed(phone.access)] == [False, True]


def test_an_ended_session_is_refused_from_the_next_request_and_others_are_not(user: User) -> None:
    lost, own = signed_in(user), signed_in(user)
    (sign_in,) = SignIn.objects.exclude(pk=authenticate(own.access).sign_in.pk)  # type: ignore[union-attr]
    assert client(own.access).delete(f"{SESSIONS}/{sign_in.pk}").status_code == 200
    assert (opens("/who", lost.access), opens("/who", own.access)) == (401, 200)
    refreshed = Client().post("/api/token/refresh", {"refresh": lost.refresh}, content_type="application/json")
    assert refreshed.status_code == 401
    assert len(listed(own.access)) == 1
    assert client(own.access).delete(f"{SESSIONS}/{sign_in.pk}").status_code == 404


def test_a_session_of_another_user_is_404_and_goes_on(user: User) -> None:
    stranger = signed_in(make_user(email="other@example.com"))
    theirs = signed_in(user)
    for sign_in_id in (SignIn.objects.get(user=user).pk, uuid.uuid4()):
        assert client(stranger.access).delete(f"{SESSIONS}/{sign_in_id}").status_code == 404
    assert client(stranger.access).delete(f"{SESSIONS}/1").status_code == 404
    assert is_accepted(theirs.access)


def test_sign_ins_that_have_ended_are_not_listed(user: User) -> None:
    now = timezone.now()
    left = signed_in(user)
    sign_out(principal=authenticate(left.access), refresh=None, now=now)
    signed_in(user)
    SignIn.objects.filter(revoked_at=None).update(expires_at=now - timedelta(seconds=1))
    signed_in(user)
    change_password(user=user, old=PASSWORD, new="another good passphrase")
    user.refresh_from_db()
    assert not SignIn.objects.active_of(user, now=now).exists()


def test_sign_ins_of_an_earlier_version_end_with_a_new_password(user: User) -> None:
    filled, refreshed = signed_in(user), signed_in(user)
    versions = import_module("shared.accounts.migrations.0011_versions_of_sign_ins")
    SignIn.objects.update(token_version=None)
    versions.fill_token_versions(apps, connection.schema_editor())
    SignIn.objects.filter(pk=authenticate(refreshed.access).sign_in.pk).update(token_version=None)  # type: ignore[union-attr]
    assert len(listed(filled.access)) == 2
    refresh_tokens(refresh=refreshed.refresh, now=timezone.now())
    assert not SignIn.objects.filter(token_version=None).exists()

    change_password(user=user, old=PASSWORD, new="another good passphrase")
    user.refresh_from_db()
    assert not SignIn.objects.active_of(user, now=timezone.now()).exists()


def test_expired_sign_ins_sessions_networks_and_responses_are_deleted(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_PER_TRANSACTION", 2)
    now = timezone.now()
    pair = signed_in(user)
    times = {"created_at": now, "refreshed_at": now}
    for _ in range(5):
        SignIn.objects.create(user=user, expires_at=now, **times)
    SignIn.objects.create(user=user, expires_at=now + HOUR, revoked_at=now - HOUR, **times)
    SignInNetwork.objects.create(user=user, network="old", used_at=now - timedelta(days=91))
    for name, expire_date in {"old": now, "new": now + HOUR}.items():
        Session.objects.create(session_key=name, session_data="", expire_date=expire_date)
    for name, created_at in {"old": now - timedelta(days=1, seconds=1), "new": now}.items():
        try_claim_key(scope=name, fingerprint="f", now=created_at)

    assert tasks.delete_expired(now=now) == 5 + 1 + 1 + 1 + 1
    assert is_accepted(pair.access)
    assert SignIn.objects.count() == SignInNetwork.objects.count() == 1
    assert Session.objects.get().session_key == "new"
    assert KeyedRequest.objects.get().scope == "new"
    assert tasks.delete_expired(now=now) == 0
