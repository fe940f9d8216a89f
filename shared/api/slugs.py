"""Slugs generated from names, in any script."""

import re
import secrets
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.db.models import QuerySet

from shared.api.errors import ApiError

MAX_BASE_LENGTH = 240  # the column has 255: this leaves space for a suffix
RESERVED_SLUGS = frozenset({"search", "suggest"})  # paths beside those of products
NUMBERED_SUFFIXES = range(2, 10)
SUFFIX = re.compile(r"-(?:[2-9]|[0-9a-f]{8})\Z")  # that slug_candidates adds
MAX_ATTEMPTS = 5
MAX_NAMED_SYMBOLS = 4
# Latin letters that Unicode does not decompose into one of A to Z and a mark.
_LATIN_SPELLINGS = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
     "þ": "th", "Þ": "Th", "ð": "d", "Ð": "D", "\u0131": "i"}
)  # fmt: skip
_SEPARATORS = re.compile(r"[-\s]+")


class SlugField(models.CharField):  # type: ignore[type-arg]
    """Slug with letters of any script and their marks, which Django's SlugField refuses.

    The column is the same, so migrations name Django's field.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"db_index": True} | kwargs)

    def get_internal_type(self) -> str:
        return "SlugField"

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        is_indexed = kwargs.pop("db_index", False)
        return name, "django.db.models.SlugField", args, kwargs if is_indexed else kwargs | {"db_index": False}


def is_numeric(slug: str) -> bool:
    """Return whether the slug is a number, which a path takes for an id."""
    return slug.isdigit()


def validate_slug(slug: str) -> None:
    """Validate the slug of a model field: one typed in the admin gets no suffix."""
    if is_numeric(slug):
        raise ValidationError("A slug may not be a number alone: in an address that is an id.")
    if not all(_is_slug_character(character) for character in slug):
        raise ValidationError("Write a slug with letters, digits, hyphens and underscores, as in desk-lamp.")
    if slug in RESERVED_SLUGS:
        raise ValidationError(f"The slug {slug} is reserved: choose another one, such as {slug}-2.")


def make_slug(text: str) -> str:
    """Return `text` in lower case with hyphens: Latin letters without their marks, other letters as they are.

    A text of symbols alone is spelled with their Unicode names, as in `black-heart-suit`. Only an empty text has an
    empty slug.
    """
    composed = unicodedata.normalize("NFKC", text.translate(_LATIN_SPELLINGS))
    decomposed = unicodedata.normalize("NFKD", composed)
    is_latin = all(character.isascii() for character in decomposed if character.isalnum())
    letters = decomposed.encode("ascii", "ignore").decode() if is_latin else composed
    kept = [letter for letter in letters.lower() if letter.isspace() or _is_slug_character(letter)]
    slug = _SEPARATORS.sub("-", normalize_slug("".join(kept))).strip("-_")
    return slug if any(letter.isalnum() for letter in slug) else _spell_symbols(text)


def _is_slug_character(character: str) -> bool:
    return character in "-_" or unicodedata.category(character)[0] in "LMN"


def _spell_symbols(text: str) -> str:
    symbols = [symbol for symbol in text if not symbol.isspace()][:MAX_NAMED_SYMBOLS]
    names = [unicodedata.name(symbol, f"u{ord(symbol):x}") for symbol in symbols]
    return _SEPARATORS.sub("-", "-".join(names).lower())


def normalize_slug(slug: str) -> str:
    """Return a slug as it is stored: some systems send a letter and its marks apart."""
    return unicodedata.normalize("NFKC", slug)


def slug_candidates(text: str) -> list[str]:
    """Yield slugs for `text`, best first: without a suffix, with a small number, then with random letters.

    A slug that would read as an id, and a reserved one, get a suffix too.
    """
    base = slug_base(text) or secrets.token_hex(4)
    candidates = [] if is_numeric(base) or base in RESERVED_SLUGS else [base]
    return [*candidates, *numbered_slugs(base), f"{base}-{secrets.token_hex(4)}"]


def slug_base(text: str) -> str:
    """Return the slug of `text` before a suffix; an empty one if `text` has no character that a slug may have."""
    return make_slug(text)[:MAX_BASE_LENGTH].strip("-_")


def numbered_slugs(base: str) -> list[str]:
    return [f"{base}-{number}" for number in NUMBERED_SUFFIXES]


def find_free_slug(text: str, siblings: "QuerySet[Any]") -> str:
    """Return the best slug of `text` that none of `siblings` has."""
    candidates = slug_candidates(text)
    taken = set(siblings.filter(slug__in=candidates).values_list("slug", flat=True))
    return next((slug for slug in candidates if slug not in taken), candidates[-1])


def save_all_with_unique_slugs(
    rows: Sequence[Any], is_free: Callable[[Any, Collection[tuple[str, int]]], bool]
) -> None:
    """Insert rows of one model with free slugs, looked up in one query. `slug` has the text that a slug is made from.

    `is_free` says whether a row may have a slug, given the language and the shop of each row that has it. If a slug is
    taken meanwhile, all are tried again. Raise ApiError 409 if that happens repeatedly.
    """
    if not rows:
        return
    manager = type(rows[0])._default_manager
    candidates = [slug_candidates(row.slug) for row in rows]
    for _ in range(MAX_ATTEMPTS):
        taken: dict[str, set[tuple[str, int]]] = defaultdict(set)
        found = manager.filter(slug__in={slug for slugs in candidates for slug in slugs})
        for slug, language, shop_id in found.values_list("slug", "language", "shop_id"):
            taken[slug].add((language, shop_id))
        for row, slugs in zip(rows, candidates, strict=True):
            row.slug = next((slug for slug in slugs if is_free(row, taken[slug])), slugs[-1])
            taken[row.slug].add((row.language, row.shop_id))
        try:
            with transaction.atomic():
                manager.bulk_create(rows)
            return
        except IntegrityError as error:  # a concurrent request took one of the slugs
            collision = error
    raise ApiError(409, "Concurrent requests take the same slugs. Try again.") from collision


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
