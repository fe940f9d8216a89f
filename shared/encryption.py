"""Encryption of secrets at rest, with keys derived from SECRET_KEY: a database dump alone does not have them.

Secrets encrypted under one of SECRET_KEY_FALLBACKS can still be decrypted.
"""

import base64

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac

SALT = "inference.webhooks.sealing"  # derives the key of stored secrets: it must never change


class DecryptionFailed(Exception):
    """The secret was encrypted under an unknown key."""


def encrypt(secret: str) -> str:
    """Return the secret encrypted under SECRET_KEY."""
    return _fernet().encrypt(secret.encode()).decode()


def decrypt(encrypted: str) -> str:
    """Return the secret. Raises DecryptionFailed."""
    try:
        return _fernet().decrypt(encrypted.encode()).decode()
    except InvalidToken:
        raise DecryptionFailed from None


def reencrypt(encrypted: str) -> str:
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
