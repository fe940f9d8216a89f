"""`reencrypt_secrets`: encrypt stored secrets under the current SECRET_KEY after it was changed."""

from typing import Any

from django.core.management.base import BaseCommand

from shared.webhooks.secrets import ENCRYPTED_TABLES, reencrypt_secrets


class Command(BaseCommand):
    help = "Encrypt all stored secrets under SECRET_KEY, so that no fallback key is needed to read them."

    def handle(self, *args: Any, **options: Any) -> None:
        for model, table in ENCRYPTED_TABLES.items():
            reencrypted, failed = reencrypt_secrets(model)
            self.stdout.write(f"Re-encrypted the secrets of {reencrypted} {table.label}.")
            if failed:
                self.stderr.write(
                    f"The secrets of {failed} {table.label} are encrypted under an unknown key. Add that key to "
                    f"STOA_SECRET_KEY_FALLBACKS, or {table.remedy}."
                )
