"""A refresh token is good for one use; a second use ends the sign-in."""

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
AT_ONCE = 50


def refreshed(pair: TokenPair) -> TokenPair:
    return refresh_tokens(refresh=pair.refresh, now=timezone.now())


def is_refused(pair: TokenPair) -> bool:
    try:
        refreshed(pair)
    except NotAuthenticated:
        return True
    return False


@pytest.mark.django_db(transaction=True)
def test_a2_one_refresh_token_used_at_once_has_one_winner(settings: Settings) -> None:
    settings.LOGIN_LIMIT = ROUNDS
    user = make_user()
    for _ in range(ROUNDS):
        pair = signed_in(user)
        together = threading.Barrier(AT_ONCE)

        def use(pair: TokenPair = pair, together: threading.Barrier = together) -> bool:
            together.wait(timeout=30)
            try:
                return not is_refused(pair)
            finally:
                connection.close()

        with ThreadPoolExecutor(AT_ONCE) as pool:
            won = [pool.submit(use) for _ in range(AT_ONCE)]
        assert sum(use.result() for use in won) == 1


def test_a2_a_refresh_gives_a_new_pair_and_takes_the_old_refresh_token(user: User) -> None:
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


def test_a2_reuse_leaves_the_users_other_sign_ins_alone(user: User) -> None:
    stolen, other = signed_in(user), signed_in(user)
    refreshed(stolen)
    assert is_refused(stolen)
    assert is_accepted(other.access)
    assert not is_refused(other)


def test_a2_who_came_before_the_rotation_lost_a_race_and_stole_nothing(user: User) -> None:
    pair = signed_in(user)
    came = timezone.now()
    winner = refreshed(pair)
    with pytest.raises(NotAuthenticated):
        refresh_tokens(refresh=pair.refresh, now=came)
    assert is_accepted(winner.access)
    assert not is_refused(winner)


def test_refreshing_through_the_route(user: User) -> None:
    pair = signed_in(user)
    answer = Client().post("/api/token/refresh", {"refresh": pair.refresh}, content_type="application/json")
    assert answer.status_code == 200
    assert set(answer.json()) == {"token", "refresh", "expires_at", "permissions", "role", "email_verified"}
    again = Client().post("/api/token/refresh", {"refresh": pair.refresh}, content_type="application/json")
    assert again.status_code == 401


def test_sign_ins_that_are_over_are_swept_at_the_next_one(user: User) -> None:
    signed_in(user)
    SignIn.objects.update(expires_at=timezone.now())
    signed_in(user)
    assert SignIn.objects.count() == 1
