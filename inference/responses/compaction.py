"""Compaction: a conversation's summary, encrypted with a key derived from SECRET_KEY, that stands for its items."""

import base64
from collections.abc import Iterable

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac

from inference.engine import InvalidRequest
from inference.protocol.openai.responses.items import CompactionItem, InputTextPart, Item, MessageItem

SALT = "inference.responses.compaction"  # derives the key of summaries that clients hold: it must never change
SUMMARY_REQUEST = (
    "Summarize this conversation for an assistant that continues it and will not see it: what the user wants, what "
    "was said, decided and found, and what is still open. Write the summary only."
)
SUMMARY_HEADING = "Summary of the conversation so far:"


def encrypt_summary(summary: str) -> str:
    """Return the summary as the content of a compaction."""
    return _fernet().encrypt(summary.encode()).decode()


def read_compactions(items: Iterable[Item]) -> list[Item]:
    """Return the items with messages in the place of compactions.

    Raise InvalidRequest for a compaction of another server, or of a key that is no longer known.
    """
    return [_message(item) if isinstance(item, CompactionItem) else item for item in items]


def _message(item: CompactionItem) -> MessageItem:
    try:
        summary = _fernet().decrypt(item.encrypted_content.encode()).decode()
    except InvalidToken:
        message = (
            "`encrypted_content` of a compaction is not one of this server. Send the items that `POST "
            "/v1/responses/compact` returned here, or the conversation itself."
        )
        raise InvalidRequest(message, field="input") from None
    return MessageItem(role="system", content=[InputTextPart(f"{SUMMARY_HEADING}\n{summary}")])


def _fernet() -> MultiFernet:
    return MultiFernet([_derive_key(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _derive_key(secret_key: str) -> Fernet:
    digest = salted_hmac(SALT, "key", secret=secret_key, algorithm="sha256").digest()
    return Fernet(base64.urlsafe_b64encode(digest))
