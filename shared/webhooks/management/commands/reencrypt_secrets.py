"""`reencrypt_secrets`: encrypt stored secrets under the current SECRET_KEY after it was changed."""

from typing import Any

from django.core.management.base import BaseCommand

from shared.accounts.models import SecondFactor
from shared.webhooks.models import Endpoint
from shared.webhooks.secrets import reencrypt_secrets

LABELS = {
    Endpoint: ("webhooks", "have their owners rotate the secrets"),
    SecondFactor: ("second factors", "turn them off, so that their users can set up new ones"),
}


class Command(BaseCommand):
    help = (
        "Encrypt the secrets of all webhooks and second factors under SECRET_KEY, so that no fallback key is needed "
        "to read them."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        for model, (label, remedy) in LABELS.items():
            counts = reencrypt_secrets(model)
            self.stdout.write(f"Re-encrypted the secrets of {counts.reencrypted} {label}.")
            if counts.failed:
                self.stderr.write(
                    f"The secrets of {counts.failed} {label} are encrypted under an unknown key. Add that key to "
                    f"STOA_SECRET_KEY_FALLBACKS, or {remedy}."
                )
