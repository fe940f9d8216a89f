"""Rotation of the keys of an installation, which signs nobody out."""

import secrets

import pytest
from django.conf import settings as configured
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from rest_framework_simplejwt.exceptions import TokenError

from shared.accounts.email.links import InvalidLink, LinkPurpose, create_link_token, verify_link_token
from shared.accounts.models import User
from shared.accounts.services import refresh_tokens
from shared.accounts.tokens import RefreshToken
from tests.shared.accounts.conftest import PASSWORD, is_accepted, set_signing_key, signed_in


def new_key() -> str:
    return secrets.token_urlsafe(48)


def test_tokens_of_a_fallback_key_are_valid_and_refresh_to_the_current_key(user: User, settings: Settings) -> None:
    before, today = configured.SIMPLE_JWT["SIGNING_KEY"], new_key()
    pair = signed_in(user)
    set_signing_key(settings, today, fallbacks=[new_key(), before])

    assert is_accepted(pair.access)
    fresh = refresh_tokens(refresh=pair.refresh, now=timezone.now())

    settings.JWT_KEY_FALLBACKS = []
    assert is_accepted(fresh.access)
    assert not is_accepted(pair.access)


def test_servers_accept_tokens_of_a_fallback_key_before_they_sign_with_it(user: User, settings: Settings) -> None:
    today, following = configured.SIMPLE_JWT["SIGNING_KEY"], new_key()
    set_signing_key(settings, following)  # a server that was restarted
    pair = signed_in(user)
    set_signing_key(settings, today, fallbacks=[following])  # one that was not yet

    assert is_accepted(pair.access)


def test_a_token_of_an_unknown_key_is_refused_despite_fallbacks(user: User, settings: Settings) -> None:
    ours = settings.SIMPLE_JWT["SIGNING_KEY"]
    set_signing_key(settings, new_key())
    pair = signed_in(user)
    set_signing_key(settings, ours, fallbacks=[new_key(), new_key()])

    assert not is_accepted(pair.access)
    with pytest.raises(TokenError):
        RefreshToken(pair.refresh)


def test_email_links_stay_valid_after_a_change_of_the_secret_key(user: User, settings: Settings) -> None:
    now, before = timezone.now(), configured.SECRET_KEY
    token = create_link_token(user, LinkPurpose.RESET_PASSWORD, now=now)
    settings.SECRET_KEY = new_key()

    with pytest.raises(InvalidLink):
        verify_link_token(token, LinkPurpose.RESET_PASSWORD, now=now)
    settings.SECRET_KEY_FALLBACKS = [before]
    assert verify_link_token(token, LinkPurpose.RESET_PASSWORD, now=now).user_id == user.pk


def test_an_admin_session_stays_valid_after_a_change_of_the_secret_key(admin_user: User, settings: Settings) -> None:
    settings.ROOT_URLCONF = f"{settings.PROJECT}.config.urls"
    client = Client()
    assert client.login(username=admin_user.email, password=PASSWORD)
    before = configured.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = new_key(), [before]

    assert client.get("/admin/").status_code == 200

    settings.SECRET_KEY_FALLBACKS = []
    assert client.get("/admin/").status_code == 200  # signed again with the current key
