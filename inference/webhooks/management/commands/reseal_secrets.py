"""`reseal_secrets`: after a change of SECRET_KEY, what the key before it has sealed."""

from typing import Any

from django.core.management.base import BaseCommand

from inference.webhooks.services import reseal_secrets


class Command(BaseCommand):
    help = "Seals the secrets of all webhooks with SECRET_KEY. Afterwards no key of before is needed to read them."

    def handle(self, *args: Any, **options: Any) -> None:
        resealed = reseal_secrets()
        self.stdout.write(f"Sealed with today's key: the secrets of {resealed.sealed} webhooks.")
        if resealed.lost:
            self.stderr.write(
                f"{resealed.lost} webhooks have a secret that no known key opens: their owners have to rotate it, "
                "or give the key that sealed it in STOA_SECRET_KEY_FALLBACKS."
            )
