"""Refresh tokens: each is exchanged once; a use after ten seconds revokes the sign-in."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

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
def test_n10_concurrent_uses_of_a_refresh_token_get_one_distinct_pair(settings: Settings) -> None:
    settings.LOGIN_LIMIT = ROUNDS
    user = make_user()
    for _ in range(ROUNDS):
        pair = signed_in(user)
        barrier = threading.Barrier(CONCURRENT_USES)

        def use(pair: TokenPair = pair, barrier: threading.Barrier = barrier) -> tuple[str, str]:
            barrier.wait(timeout=30)
            try:
                fresh = refreshed(pair)
                return fresh.access, fresh.refresh
            finally:
                connection.close()

        with ThreadPoolExecutor(CONCURRENT_USES) as pool:
            uses = [pool.submit(use) for _ in range(CONCURRENT_USES)]
        (access, refresh) = {use.result() for use in uses}.pop()
        assert {use.result() for use in uses} == {(access, refresh)}
        assert is_accepted(access)
        assert refresh != pair.refresh
        assert refresh_tokens(refresh=refresh, now=timezone.now()).refresh != refresh


def test_a2_a_refresh_returns_a_new_pair_and_for_ten_seconds_the_same_again(user: User) -> None:
    first = signed_in(user)
    second = refreshed(first)
    again = refreshed(first)
    assert second.refresh != first.refresh
    assert (again.access, again.refresh, again.expires_at) == (second.access, second.refresh, second.expires_at)
    assert is_accepted(second.access)


def test_n10_reuse_after_ten_seconds_revokes_the_family(user: User) -> None:
    first = signed_in(user)
    second = refreshed(first)
    SignIn.objects.update(refreshed_at=timezone.now() - timedelta(seconds=11))
    assert is_refused(first)
    assert is_refused(second)
    assert not any(is_accepted(pair.access) for pair in (first, second))


def test_a2_reuse_of_a_token_before_the_last_revokes_the_family(user: User) -> None:
    first = signed_in(user)
    second = refreshed(first)
    third = refreshed(second)
    assert is_refused(first)
    assert is_refused(third)
    assert not any(is_accepted(pair.access) for pair in (first, second, third))


def test_a2_reuse_does_not_revoke_other_sign_ins_of_the_user(user: User) -> None:
    stolen, other = signed_in(user), signed_in(user)
    refreshed(refreshed(stolen))
    assert is_refused(stolen)
    assert is_accepted(other.access)
    assert not is_refused(other)


def test_a2_a_use_that_arrived_before_the_rotation_revokes_nothing(user: User) -> None:
    pair = signed_in(user)
    arrived_at = timezone.now()
    winner = refreshed(refreshed(pair))
    with pytest.raises(NotAuthenticated):
        refresh_tokens(refresh=pair.refresh, now=arrived_at)
    assert is_accepted(winner.access)
    assert not is_refused(winner)


def test_the_refresh_route_returns_a_pair(user: User) -> None:
    pair = signed_in(user)
    answer = Client().post("/api/token/refresh", {"refresh": pair.refresh}, content_type="application/json")
    assert answer.status_code == 200
    assert set(answer.json()) == {"token", "refresh", "expires_at", "permissions", "role", "email_verified"}
    again = Client().post("/api/token/refresh", {"refresh": pair.refresh}, content_type="application/json")
    assert again.json() == answer.json()


def test_a_sign_in_deletes_expired_ones(user: User) -> None:
    signed_in(user)
    SignIn.objects.update(expires_at=timezone.now())
    signed_in(user)
    assert SignIn.objects.count() == 1
