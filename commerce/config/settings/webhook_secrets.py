"""Webhook signing secrets from environment variables."""

import base64
import binascii

from django.core.exceptions import ImproperlyConfigured

from shared.environment import Environment

PREFIX = "whsec_"
MIN_SECRET_BYTES = 24  # required by Standard Webhooks


def webhook_secret(env: Environment, name: str) -> str:
    """Return a secret in the format of Standard Webhooks, or "" if the variable is empty.

    Raises ImproperlyConfigured for any other text, without quoting it.
    """
    secret = env.str(name)
    if secret and _size(secret) < MIN_SECRET_BYTES:
        raise ImproperlyConfigured(
            f"{name} is not a webhook secret: set it to the one that the model server shows, {PREFIX} and base64 of "
            f"at least {MIN_SECRET_BYTES} bytes."
        )
    return secret


def _size(secret: str) -> int:
    """Return the size of the secret in bytes, or 0 if it has another format."""
    try:
        return len(base64.b64decode(secret.removeprefix(PREFIX), validate=True)) if secret.startswith(PREFIX) else 0
    except binascii.Error:
        return 0
