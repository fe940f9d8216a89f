"""The accounts app, and the checks that stop a start with a weak key."""

from django.apps import AppConfig
from django.core.checks import register

from shared.accounts.checks import check_jwt_key


class AccountsConfig(AppConfig):
    name = "shared.accounts"
    label = "accounts"

    def ready(self) -> None:
        register(check_jwt_key)
