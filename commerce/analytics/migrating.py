"""What happens to the triggers when Django migrates."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.utils import timezone

from commerce.analytics import services


def before(*, using: str, plan: list[Any], **kwargs: Any) -> None:
    if using == DEFAULT_DB_ALIAS and plan:
        services.make_way(now=timezone.now())


def after(*, using: str, **kwargs: Any) -> None:
    if using == DEFAULT_DB_ALIAS:
        services.open_books()
