"""The command `reencrypt_secrets`."""

from io import StringIO

from django.core.management import call_command
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.models import SecondFactor, User
from shared.accounts.sign_ins.second_factor import authenticator_key, begin_second_factor
from shared.encryption import decrypt, encrypt
from shared.webhooks.models import Endpoint
from shared.webhooks.services import create_endpoint, rotate_secret
from tests.inference.webhooks.conftest import make_user

NO_MEMBERS = "Re-encrypted the secrets of 0 pool members.\n"
NO_FACTORS = f"Re-encrypted the secrets of 0 second factors.\n{NO_MEMBERS}"
OLD_KEY, NEW_KEY = "the one before " * 4, "the one after it " * 4


def endpoint_of(user: User) -> Endpoint:
    issued = create_endpoint(
        user=user, url="https://8.8.8.8/told", events=["batch.complete"], is_enabled=True, now=timezone.now()
    )
    return issued.endpoint


def run_reencrypt_secrets() -> tuple[str, str]:
    output, errors = StringIO(), StringIO()
    call_command("reencrypt_secrets", stdout=output, stderr=errors)
    return output.getvalue(), errors.getvalue()


def test_reencrypted_secrets_need_no_fallback_key(user: User, settings: Settings):
    settings.SECRET_KEY = OLD_KEY
    endpoint = endpoint_of(user)
    secret = decrypt(endpoint.secret)
    following = rotate_secret(user=user, endpoint_id=endpoint.public_id, now=timezone.now()).secret
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW_KEY, [OLD_KEY]

    assert run_reencrypt_secrets() == (f"Re-encrypted the secrets of 1 webhooks.\n{NO_FACTORS}", "")

    settings.SECRET_KEY_FALLBACKS = []
    endpoint.refresh_from_db()
    assert (decrypt(endpoint.secret), decrypt(endpoint.previous_secret)) == (following, secret)


def test_an_undecryptable_secret_is_reported_and_left_unchanged(user: User, settings: Settings):
    own = endpoint_of(user)
    settings.SECRET_KEY = OLD_KEY
    lost = endpoint_of(make_user("other"))
    ciphertext = lost.secret
    settings.SECRET_KEY = NEW_KEY
    Endpoint.objects.filter(pk=own.pk).update(secret=encrypt("whsec_mine"))

    output, errors = run_reencrypt_secrets()

    assert output == f"Re-encrypted the secrets of 1 webhooks.\n{NO_FACTORS}"
    assert errors.startswith("The secrets of 1 webhooks are encrypted under an unknown key")
    lost.refresh_from_db()
    assert lost.secret == ciphertext


def test_the_secrets_of_second_factors_are_reencrypted(user: User, settings: Settings):
    settings.SECRET_KEY = OLD_KEY
    key = authenticator_key(begin_second_factor(user=user))
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW_KEY, [OLD_KEY]

    assert run_reencrypt_secrets() == (
        f"Re-encrypted the secrets of 0 webhooks.\nRe-encrypted the secrets of 1 second factors.\n{NO_MEMBERS}",
        "",
    )

    settings.SECRET_KEY_FALLBACKS = []
    assert authenticator_key(SecondFactor.objects.get(user=user)) == key
