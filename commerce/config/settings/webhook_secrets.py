"""Secrets with which others sign what they send us."""

import base64
import binascii

from django.core.exceptions import ImproperlyConfigured
from environ import Env

PREFIX = "whsec_"
FEWEST_BYTES = 24  # as Standard Webhooks has it: of fewer, and of none, a signature could be guessed


def webhook_secret(env: Env, name: str) -> str:
    """A secret in the form of Standard Webhooks, or "" where none is given. Raises ImproperlyConfigured for any other
    text, without a word of it."""
    secret = str(env.str(name))
    if secret and _size(secret) < FEWEST_BYTES:
        raise ImproperlyConfigured(
            f"{name} is no webhook secret: give the one that the model server shows, {PREFIX} and base64 of at least "
            f"{FEWEST_BYTES} bytes."
        )
    return secret


def _size(secret: str) -> int:
    """In bytes; 0 for what is no secret."""
    try:
        return len(base64.b64decode(secret.removeprefix(PREFIX), validate=True)) if secret.startswith(PREFIX) else 0
    except binascii.Error:
        return 0
