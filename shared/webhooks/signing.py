"""Signatures of Standard Webhooks 1.0.0 (https://www.standardwebhooks.com): secrets, and the headers of a message."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime

PREFIX = "whsec_"
SECRET_BYTES = 32


def make_secret() -> str:
    """Return a new secret in the form that the receivers' libraries expect."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signature_headers(*, message_id: str, body: str, signing_secrets: Sequence[str], now: datetime) -> dict[str, str]:
    """Return the three headers of one attempt, with one signature for each secret; a receiver accepts any of them."""
    timestamp = str(int(now.timestamp()))
    signed = f"{message_id}.{timestamp}.{body}".encode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(secret, signed) for secret in signing_secrets),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
