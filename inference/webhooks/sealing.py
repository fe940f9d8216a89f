"""Secrets at rest: sealed with a key that comes of SECRET_KEY, so that a copy of the database signs nothing.

What was sealed under one of SECRET_KEY_FALLBACKS can still be read.
"""

import base64

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac

SALT = "inference.webhooks.sealing"


class SecretLost(Exception):
    """It was sealed under a key that is known no more."""


def seal(secret: str) -> str:
    """The secret as it may be kept."""
    return _keys().encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    """The secret as it was. Raises SecretLost."""
    try:
        return _keys().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise SecretLost from None


def reseal(sealed: str) -> str:
    """The same secret, sealed with today's key. Raises SecretLost."""
    try:
        return _keys().rotate(sealed.encode()).decode()
    except InvalidToken:
        raise SecretLost from None


def _keys() -> MultiFernet:
    return MultiFernet([_key(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret_key: str) -> Fernet:
    digest = salted_hmac(SALT, "key", secret=secret_key, algorithm="sha256").digest()
    return Fernet(base64.urlsafe_b64encode(digest))
