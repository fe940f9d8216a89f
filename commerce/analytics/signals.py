"""Receivers of Django's migration signals, which remove and install the ledger's triggers."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.utils import timezone

from commerce.analytics import services


def remove_triggers(*, using: str, plan: list[Any], **kwargs: Any) -> None:
    """Handle `pre_migrate`."""
    if using == DEFAULT_DB_ALIAS and plan:
        services.remove_triggers_for_migration(now=timezone.now())


def ensure_triggers(*, using: str, **kwargs: Any) -> None:
    """Handle `post_migrate`."""
    if using == DEFAULT_DB_ALIAS:
        services.ensure_triggers()
