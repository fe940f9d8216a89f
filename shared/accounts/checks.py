"""System checks: what must be sound before anything is served."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from shared.secret_files import can_be_guessed


def check_jwt_key(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """An error for a key that could be guessed."""
    if not can_be_guessed(settings.JWT_KEY):
        return []
    return [
        Error(
            "STOA_JWT_KEY can be guessed, and whoever guesses it can sign in as anybody.",
            hint="Unset it, and one is made under var/, or set it to what this prints: "
            "python -c 'import secrets; print(secrets.token_urlsafe(48))'",
            id="accounts.E001",
        )
    ]
