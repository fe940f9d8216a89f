"""The accounts app, and the system check that refuses a JWT key that can be guessed."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from shared.secret_files import can_be_guessed


class AccountsConfig(AppConfig):
    name = "shared.accounts"
    label = "accounts"

    def ready(self) -> None:
        import_module("shared.accounts.schema")
        register(check_jwt_key)


def check_jwt_key(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """An error for a key that could be guessed; one of another time is as good to whoever guesses it."""
    keys = {"STOA_JWT_KEY": [settings.SIMPLE_JWT["SIGNING_KEY"]], "STOA_JWT_KEY_FALLBACKS": settings.JWT_KEY_FALLBACKS}
    return [
        Error(
            f"{name} can be guessed, and whoever guesses it can sign in as anybody.",
            hint="Unset it, and one is made under var/, or set it to what this prints: "
            "python -c 'import secrets; print(secrets.token_urlsafe(48))'",
            id="accounts.E001",
        )
        for name, given in keys.items()
        if any(map(can_be_guessed, given))
    ]
