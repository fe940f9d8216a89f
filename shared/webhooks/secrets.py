"""Re-encryption of stored secrets: those of webhooks, of second factors, and of apps that add their tables."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Model

from shared.accounts.models import SecondFactor
from shared.encryption import DecryptionFailed, reencrypt
from shared.webhooks.models import Endpoint


@dataclass(frozen=True)
class EncryptedTable:
    """A table with encrypted fields. label: of its rows; remedy: what to do with those that cannot be decrypted."""

    fields: tuple[str, ...]
    label: str
    remedy: str


# An app adds its table when it is ready.
ENCRYPTED_TABLES: dict[type[Model], EncryptedTable] = {
    Endpoint: EncryptedTable(("secret", "previous_secret"), "webhooks", "have their owners rotate the secrets"),
    SecondFactor: EncryptedTable(
        ("secret",), "second factors", "turn them off, so that their users can set up new ones"
    ),
}


def reencrypt_secrets(model: type[Model]) -> tuple[int, int]:
    """Encrypt every secret of the table under the current SECRET_KEY, so that no fallback key is needed.

    Return the counts of rows that were re-encrypted, and of those that cannot be decrypted. Safe to repeat.
    """
    fields = ENCRYPTED_TABLES[model].fields
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
    return reencrypted, failed
