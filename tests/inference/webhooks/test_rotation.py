"""After a change of SECRET_KEY the secrets of webhooks are sealed with today's key."""

from io import StringIO

from django.core.management import call_command
from django.utils import timezone
from pytest_django import Settings

from inference.webhooks.models import Endpoint
from inference.webhooks.sealing import seal, unseal
from inference.webhooks.services import create_endpoint, rotate_secret
from shared.accounts.models import User
from tests.inference.webhooks.conftest import make_user

BEFORE, TODAY = "the one before " * 4, "the one after it " * 4


def endpoint_of(user: User) -> Endpoint:
    issued = create_endpoint(
        user=user, url="https://8.8.8.8/told", events=["batch.complete"], is_enabled=True, now=timezone.now()
    )
    return issued.endpoint


def resealed() -> tuple[str, str]:
    told, complained = StringIO(), StringIO()
    call_command("reseal_secrets", stdout=told, stderr=complained)
    return told.getvalue(), complained.getvalue()


def test_what_was_sealed_before_needs_no_key_of_before_afterwards(user: User, settings: Settings):
    settings.SECRET_KEY = BEFORE
    endpoint = endpoint_of(user)
    secret = unseal(endpoint.secret)
    following = rotate_secret(user=user, endpoint_id=endpoint.public_id, now=timezone.now()).secret
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = TODAY, [BEFORE]

    assert resealed() == ("Sealed with today's key: the secrets of 1 webhooks.\n", "")

    settings.SECRET_KEY_FALLBACKS = []
    endpoint.refresh_from_db()
    assert (unseal(endpoint.secret), unseal(endpoint.previous_secret)) == (following, secret)


def test_a_secret_that_no_known_key_opens_is_told_of_and_left_as_it_is(user: User, settings: Settings):
    mine = endpoint_of(user)
    settings.SECRET_KEY = BEFORE
    lost = endpoint_of(make_user("other"))
    sealed = lost.secret
    settings.SECRET_KEY = TODAY
    Endpoint.objects.filter(pk=mine.pk).update(secret=seal("whsec_mine"))

    told, complained = resealed()

    assert told == "Sealed with today's key: the secrets of 1 webhooks.\n"
    assert complained.startswith("1 webhooks have a secret that no known key opens")
    lost.refresh_from_db()
    assert lost.secret == sealed
