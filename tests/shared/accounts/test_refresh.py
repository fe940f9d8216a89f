"""Refresh tokens: one use each; a second use revokes the sign-in."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.authentication import NotAuthenticated
from shared.accounts.models import SignIn, User
from shared.accounts.services import TokenPair, refresh_tokens
from tests.shared.accounts.conftest import is_accepted, make_user, signed_in

ROUNDS = int(os.environ.get("TEST_ROUNDS", "4"))
CONCURRENT_USES = 50


def refreshed(pair: TokenPair) -> TokenPair:
    return refresh_tokens(refresh=pair.refresh, now=timezone.now())


def is_refused(pair: TokenPair) -> bool:
    try:
        refreshed(pair)
    except NotAuthenticated:
        return True
    return False


@pytest.mark.django_db(transaction=True)
def test_a2_one_of_many_concurrent_uses_of_a_refresh_token_succeeds(settings: Settings) -> None:
    settings.LOGIN_LIMIT = ROUNDS
    user = make_user()
    for _ in range(ROUNDS):
        pair = signed_in(user)
        barrier = threading.Barrier(CONCURRENT_USES)

        def use(pair: TokenPair = pair, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(timeout=30)
            try:
                return not is_refused(pair)
            finally:
                connection.close()

        with ThreadPoolExecutor(CONCURRENT_USES) as pool:
            uses = [pool.submit(use) for _ in range(CONCURRENT_USES)]
        assert sum(use.result() for use in uses) == 1


def test_a2_a_refresh_returns_a_new_pair_and_invalidates_the_old_refresh_token(user: User) -> None:
    first = signed_in(user)
    second = refreshed(first)
    assert second.refresh != first.refresh
    assert is_accepted(second.access)
    assert is_refused(first)


def test_a2_reuse_after_rotation_revokes_the_family(user: User) -> None:
    first = signed_in(user)
    second = refreshed(first)
    third = refreshed(second)
    assert is_refused(first)
    assert is_refused(third)
    assert not any(is_accepted(pair.access) for pair in (first, second, third))


def test_a2_reuse_does_not_revoke_other_sign_ins_of_the_user(user: User) -> None:
    stolen, other = signed_in(user), signed_in(user)
    refreshed(stolen)
    assert is_refused(stolen)
    assert is_accepted(other.access)
    assert not is_refused(other)


def test_a2_a_use_that_arrived_before_the_rotation_revokes_nothing(user: User) -> None:
    pair = signed_in(user)
    arrived_at = timezone.now()
    winner = refreshed(pair)
    with pytest.raises(NotAuthenticated):
        refresh_tokens(refresh=pair.refresh, now=arrived_at)
    assert is_accepted(winner.access)
    assert not is_refused(winner)


def test_the_refresh_route_returns_a_pair_once(user: User) -> None:
    pair = signed_in(user)
    answer = Client().post("/api/token/refresh", {"refresh": pair.refresh}, content_type="application/json")
    assert answer.status_code == 200
    assert set(answer.json()) == {"token", "refresh", "expires_at", "permissions", "role", "email_verified"}
    again = Client().post("/api/token/refresh", {"refresh": pair.refresh}, content_type="application/json")
    assert again.status_code == 401


def test_a_sign_in_deletes_expired_ones(user: User) -> None:
    signed_in(user)
    SignIn.objects.update(expires_at=timezone.now())
    signed_in(user)
    assert SignIn.objects.count() == 1
