"""Re-encryption of what is stored encrypted: the secrets of webhooks and of second factors."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Model

from shared.accounts.models import SecondFactor
from shared.encryption import DecryptionFailed, reencrypt
from shared.webhooks.models import Endpoint

ENCRYPTED_FIELDS: dict[type[Model], tuple[str, ...]] = {
    Endpoint: ("secret", "previous_secret"),
    SecondFactor: ("secret",),
}


@dataclass(frozen=True)
class ReencryptionCounts:
    """Counts of rows by whether their secrets could be re-encrypted."""

    reencrypted: int
    failed: int


def reencrypt_secrets(model: type[Model]) -> ReencryptionCounts:
    """Encrypt every secret of the table under the current SECRET_KEY, so that no fallback key is needed.

    Safe to repeat.
    """
    fields = ENCRYPTED_FIELDS[model]
    reencrypted = failed = 0
    for pk in model._default_manager.values_list("pk", flat=True):
        with transaction.atomic():
            row = model._default_manager.select_for_update().filter(pk=pk).first()
            if row is None:
                continue
            try:
                for field in fields:
                    setattr(row, field, getattr(row, field) and reencrypt(getattr(row, field)))
            except DecryptionFailed:
                failed += 1
                continue
            row.save(update_fields=fields)
            reencrypted += 1
    return ReencryptionCounts(reencrypted, failed)
