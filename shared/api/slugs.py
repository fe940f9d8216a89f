"""Slugs made from names."""

import secrets
from collections.abc import Callable
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.text import slugify

from shared.api.errors import ApiError

LONGEST = 240  # of the column's 255: room for a suffix
PLAIN_SUFFIXES = range(2, 10)


def free_slug(text: str, siblings: "QuerySet[Any]") -> str:
    """A slug of `text` that none of `siblings` has: with a small number behind it where it is taken, then with random
    letters. One that would read as an id gets a suffix too, and a text without a Latin letter or digit is "item"."""
    base = slugify(text)[:LONGEST].strip("-_") or "item"
    candidates = [f"{base}-{number}" for number in PLAIN_SUFFIXES]
    if not base.isdigit():
        candidates.insert(0, base)
    taken = set(siblings.filter(slug__in=candidates).values_list("slug", flat=True))
    free = (slug for slug in candidates if slug not in taken)
    return next(free, f"{base}-{secrets.token_hex(4)}")


def save_with_slug(save: Callable[[str], None], siblings: "QuerySet[Any]", text: str) -> None:
    """Saves with a slug that is free; a second try where somebody else took it in between."""
    for _ in range(5):
        try:
            with transaction.atomic():
                save(free_slug(text, siblings))
            return
        except IntegrityError as error:
            taken = error
    raise ApiError(409, "Somebody else is taking the same slugs. Try again.") from taken
