"""System checks: what must be sound before anything is served."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

SHORTEST_KEY = 32  # bytes: the output of HMAC-SHA-256 (RFC 7518, section 3.2)
FEWEST_CHARACTERS = 10


def check_jwt_key(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """An error for a key that could be guessed: short, of few different characters, or a well-known default."""
    key: str = settings.JWT_KEY
    if len(key.encode()) >= SHORTEST_KEY and len(set(key)) >= FEWEST_CHARACTERS and "insecure" not in key:
        return []
    return [
        Error(
            "STOA_JWT_KEY can be guessed, and whoever guesses it can sign in as anybody.",
            hint="Unset it, and one is made under var/, or set it to what this prints: "
            "python -c 'import secrets; print(secrets.token_urlsafe(48))'",
            id="accounts.E001",
        )
    ]
