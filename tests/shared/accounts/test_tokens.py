"""Forged, expired and foreign tokens are refused."""

import uuid
from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.urls import clear_url_caches
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.models import SignIn, User
from shared.accounts.services import refresh_tokens
from shared.api.errors import ApiError
from tests.shared.accounts.conftest import is_accepted, make_user, opens, signed_in
from tests.shared.accounts.forged import decode, forged_tokens, signed

# A route of each project that needs a token: one of DRF's, one plain and async.
REAL_ROUTES = {"commerce": "/api/me", "inference": "/models"}


@pytest.fixture
def forgeries(user: User) -> dict[str, str]:
    pair, other = signed_in(user), signed_in(make_user(email="eve@example.com"))
    assert is_accepted(pair.access)
    return forged_tokens(pair.access, pair.refresh, other.access)


def test_a1_there_are_at_least_forty_forged_tokens(forgeries: dict[str, str]) -> None:
    assert len(set(forgeries.values())) >= 40


def test_a1_no_forged_token_is_accepted_by_authenticate(forgeries: dict[str, str]) -> None:
    assert [name for name, token in forgeries.items() if is_accepted(token)] == []


def test_a1_no_forged_token_opens_a_drf_or_an_async_route(forgeries: dict[str, str]) -> None:
    statuses = {
        (name, path): opens(path, token)
        for name, token in forgeries.items()
        for path in ("/who", "/who-async")
        if token.isascii()
    }
    assert {key: status for key, status in statuses.items() if status != 401} == {}


def test_a1_no_forged_token_opens_a_route_of_this_project(forgeries: dict[str, str], settings: Settings) -> None:
    settings.ROOT_URLCONF = f"{settings.PROJECT}.config.urls"
    clear_url_caches()
    path = REAL_ROUTES[settings.PROJECT]
    assert Client().get(path).status_code == 401
    statuses = {name: opens(path, token) for name, token in forgeries.items() if token.isascii()}
    assert {name: status for name, status in statuses.items() if status != 401} == {}


def test_a1_an_access_token_is_no_refresh_token(user: User) -> None:
    with pytest.raises(ApiError) as caught:
        refresh_tokens(refresh=signed_in(user).access, now=timezone.now())
    assert caught.value.problem.status == 401


def test_a_valid_token_made_by_hand_is_accepted(user: User) -> None:
    """Show that the forgeries fail for their flaws and not for how they are made."""
    head, body, _ = signed_in(user).access.split(".")
    assert is_accepted(signed(decode(head), decode(body)))


def test_both_tokens_have_the_claims_and_types_of_the_contract(user: User) -> None:
    """Two releases serve side by side during an update, so that the claims never change."""
    now = timezone.now().replace(microsecond=0)
    with time_machine.travel(now, tick=False):
        pair = signed_in(user)
    sign_in = SignIn.objects.get()
    access, refresh = (token.split(".") for token in (pair.access, pair.refresh))
    issued_at = int(now.timestamp())
    same = {
        "iss": "stoa",
        "aud": "stoa",
        "sub": str(user.pk),
        "iat": issued_at,
        "nbf": issued_at,
        "family": sign_in.id.hex,
        "version": user.token_version,
    }
    assert decode(access[0]) == decode(refresh[0]) == {"alg": "HS256", "typ": "JWT"}
    claims = decode(access[1])
    assert claims == same | {"kind": "access", "exp": issued_at + 86_400, "jti": claims["jti"]}
    assert uuid.UUID(hex=claims["jti"]) != sign_in.refresh_id
    assert decode(refresh[1]) == same | {
        "kind": "refresh",
        "exp": issued_at + 14 * 86_400,
        "jti": sign_in.refresh_id.hex,
    }


def test_an_access_token_lives_a_day_and_a_refresh_token_fourteen_days(user: User) -> None:
    now, day = timezone.now(), timedelta(days=1)
    pair = signed_in(user)
    assert day <= pair.expires_at - now < day + timedelta(seconds=10)
    with time_machine.travel(now + day - timedelta(seconds=10), tick=False):
        assert is_accepted(pair.access)
    with time_machine.travel(now + day + timedelta(seconds=10), tick=False):
        assert not is_accepted(pair.access)
    with time_machine.travel(now + timedelta(days=14, seconds=10), tick=False), pytest.raises(ApiError):
        refresh_tokens(refresh=pair.refresh, now=timezone.now())
    with time_machine.travel(now + timedelta(days=13, hours=23), tick=False):
        assert is_accepted(refresh_tokens(refresh=pair.refresh, now=timezone.now()).access)
