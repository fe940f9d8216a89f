"""Expired rows are deleted, and no others."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from shared.accounts import expiry
from shared.accounts.models import SignIn, SignInNetwork, User
from shared.api.idempotency.store import try_claim_key
from shared.api.models import KeyedRequest
from tests.shared.accounts.conftest import is_accepted, signed_in

HOUR = timedelta(hours=1)


def test_expired_sign_ins_sessions_networks_and_responses_are_deleted(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "MAX_PER_TRANSACTION", 2)
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

    assert expiry.delete_expired(now=now) == 5 + 1 + 1 + 1 + 1
    assert is_accepted(pair.access)
    assert SignIn.objects.count() == SignInNetwork.objects.count() == 1
    assert Session.objects.get().session_key == "new"
    assert KeyedRequest.objects.get().scope == "new"
    assert expiry.delete_expired(now=now) == 0
