"""Encryption of webhook secrets at rest, with keys derived from SECRET_KEY: a database dump alone can sign nothing.

Secrets encrypted under one of SECRET_KEY_FALLBACKS can still be decrypted.
"""

import base64
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import transaction
from django.utils.crypto import salted_hmac

from shared.webhooks.models import Endpoint

SALT = "inference.webhooks.sealing"  # derives the key of stored secrets: it must never change


class DecryptionFailed(Exception):
    """The secret was encrypted under an unknown key."""


@dataclass(frozen=True)
class ReencryptionCounts:
    """Counts of endpoints by whether their secrets could be re-encrypted."""

    reencrypted: int
    failed: int


def encrypt(secret: str) -> str:
    """Return the secret encrypted under SECRET_KEY."""
    return _fernet().encrypt(secret.encode()).decode()


def decrypt(encrypted: str) -> str:
    """Return the secret. Raises DecryptionFailed."""
    try:
        return _fernet().decrypt(encrypted.encode()).decode()
    except InvalidToken:
        raise DecryptionFailed from None


def reencrypt_secrets() -> ReencryptionCounts:
    """Encrypt every secret under the current SECRET_KEY, so that no fallback key is needed. Safe to repeat."""
    reencrypted = failed = 0
    for endpoint_pk in Endpoint.objects.values_list("pk", flat=True):
        with transaction.atomic():
            endpoint = Endpoint.objects.select_for_update().filter(pk=endpoint_pk).first()
            if endpoint is None:
                continue
            try:
                endpoint.secret = _reencrypt(endpoint.secret)
                endpoint.previous_secret = endpoint.previous_secret and _reencrypt(endpoint.previous_secret)
            except DecryptionFailed:
                failed += 1
                continue
            endpoint.save(update_fields=["secret", "previous_secret"])
            reencrypted += 1
    return ReencryptionCounts(reencrypted, failed)


def _reencrypt(encrypted: str) -> str:
    """Return the same secret encrypted under the current SECRET_KEY. Raises DecryptionFailed."""
    try:
        return _fernet().rotate(encrypted.encode()).decode()
    except InvalidToken:
        raise DecryptionFailed from None


def _fernet() -> MultiFernet:
    return MultiFernet([_derive_key(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _derive_key(secret_key: str) -> Fernet:
    digest = salted_hmac(SALT, "key", secret=secret_key, algorithm="sha256").digest()
    return Fernet(base64.urlsafe_b64encode(digest))
