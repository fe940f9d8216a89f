"""`reencrypt_secrets`: encrypt webhook secrets under the current SECRET_KEY after it was changed."""

from typing import Any

from django.core.management.base import BaseCommand

from shared.webhooks.encryption import reencrypt_secrets


class Command(BaseCommand):
    help = "Encrypt the secrets of all webhooks under SECRET_KEY, so that no fallback key is needed to read them."

    def handle(self, *args: Any, **options: Any) -> None:
        counts = reencrypt_secrets()
        self.stdout.write(f"Re-encrypted the secrets of {counts.reencrypted} webhooks.")
        if counts.failed:
            self.stderr.write(
                f"The secrets of {counts.failed} webhooks are encrypted under an unknown key. Add that key to "
                "STOA_SECRET_KEY_FALLBACKS, or have their owners rotate the secrets."
            )
