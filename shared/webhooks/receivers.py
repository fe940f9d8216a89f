"""Reader of the settings STOA_WEBHOOK_ALLOW and STOA_SHOP_WEBHOOK_ALLOW."""

import re
from collections.abc import Iterable

from django.core.exceptions import ImproperlyConfigured

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+):[0-9]{1,5}")


def read_webhook_receivers(entries: Iterable[str], name: str = "STOA_WEBHOOK_ALLOW") -> frozenset[str]:
    """Return the receivers as `host:port` in lower case. Raise ImproperlyConfigured for a wrong entry."""
    receivers = frozenset(entry.strip().lower() for entry in entries)
    for entry in receivers:
        if not _AUTHORITY.fullmatch(entry) or int(entry.rpartition(":")[2]) > 65535:
            raise ImproperlyConfigured(
                f"{name} holds {entry!r}: give host:port, as in shop.example:8000, with commas between."
            )
    return receivers
