"""Slugs generated from names."""

import secrets
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.text import slugify

from shared.api.errors import ApiError

MAX_BASE_LENGTH = 240  # the column has 255: this leaves space for a suffix
RESERVED_SLUGS = frozenset({"search", "suggest"})  # paths beside those of products
NUMBERED_SUFFIXES = range(2, 10)
MAX_ATTEMPTS = 5


def is_numeric(slug: str) -> bool:
    """Return whether the slug is a number, which a path takes for an id."""
    return slug.isdigit()


def validate_slug(slug: str) -> None:
    """Validate the slug of a model field: one typed in the admin gets no suffix."""
    if is_numeric(slug):
        raise ValidationError("A slug may not be a number alone: in an address that is an id.")
    if slug in RESERVED_SLUGS:
        raise ValidationError(f"The slug {slug} is reserved: choose another one, such as {slug}-2.")


def slug_candidates(text: str) -> list[str]:
    """Yield slugs for `text`, best first: without a suffix, with a small number, then with random letters.

    A slug that would read as an id, and a reserved one, get a suffix too. A text without Latin letters
    or digits becomes "item".
    """
    base = slugify(text)[:MAX_BASE_LENGTH].strip("-_") or "item"
    candidates = [] if is_numeric(base) or base in RESERVED_SLUGS else [base]
    return [*candidates, *(f"{base}-{number}" for number in NUMBERED_SUFFIXES), f"{base}-{secrets.token_hex(4)}"]


def find_free_slug(text: str, siblings: "QuerySet[Any]") -> str:
    """Return the best slug of `text` that none of `siblings` has."""
    candidates = slug_candidates(text)
    taken = set(siblings.filter(slug__in=candidates).values_list("slug", flat=True))
    return next((slug for slug in candidates if slug not in taken), candidates[-1])


def save_with_unique_slug(save: Callable[[str], None], siblings: "QuerySet[Any]", text: str) -> None:
    """Save with a free slug, and try again if it is taken meanwhile.

    Raise ApiError 409 if that happens repeatedly, and any other error of `save`.
    """
    for _ in range(MAX_ATTEMPTS):
        slug = find_free_slug(text, siblings)
        try:
            with transaction.atomic():
                save(slug)
            return
        except IntegrityError:
            if not siblings.filter(slug=slug).exists():
                raise
    raise ApiError(409, "Somebody else is taking the same slugs. Try again.")
