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
    """Return an error for each key that can be guessed, including earlier keys, which are still accepted."""
    keys = {"STOA_JWT_KEY": [settings.SIMPLE_JWT["SIGNING_KEY"]], "STOA_JWT_KEY_FALLBACKS": settings.JWT_KEY_FALLBACKS}
    return [
        Error(
            f"{name} can be guessed, so that anybody could sign in as any user.",
            hint="Unset it to create one under var/, or set it to the output of "
            "python -c 'import secrets; print(secrets.token_urlsafe(48))'",
            id="accounts.E001",
        )
        for name, values in keys.items()
        if any(map(can_be_guessed, values))
    ]
