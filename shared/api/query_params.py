"""Numbers and booleans in the query string: ASCII only, and validated first."""

import re

from rest_framework.request import Request

from shared.api.errors import ValidationFailed

MAX_LIMIT = 100
MAX_PAGE = 10**15  # beyond any list; its offset of 100 rows a page still fits into 64 bits
MAX_INTEGER = 2**63 - 1
DEFAULT_LANGUAGE = "en"
MAX_LANGUAGE_LENGTH = 16
BOOLEANS = {"1": True, "true": True, "0": False, "false": False}
_WHOLE_NUMBER = re.compile(r"(-?)0*([0-9]{1,19})\Z", re.ASCII)
_DIGITS = re.compile(r"[0-9]+\Z", re.ASCII)


def parse_integer(text: str) -> int | None:
    """Return the 64-bit integer that `text` writes in ASCII digits; None for anything else."""
    match = _WHOLE_NUMBER.match(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -MAX_INTEGER <= number <= MAX_INTEGER else None


def get_limit(request: Request, *, default: int) -> int:
    """Return `limit`, at most 100. Raise ValidationFailed if it is not a positive integer."""
    text = request.query_params.get("limit", "")
    if not text:
        return default
    if not _DIGITS.match(text) or not text.strip("0"):
        raise ValidationFailed({"limit": [f"Send a whole number from 1 to {MAX_LIMIT}."]})
    digits = text.lstrip("0")
    return MAX_LIMIT if len(digits) > 3 else min(int(digits), MAX_LIMIT)


def get_page(request: Request) -> int:
    """Return `page`, from 1; an invalid one is the first page."""
    text = request.query_params.get("page", "")
    if not _DIGITS.match(text):
        return 1
    digits = text.lstrip("0") or "1"
    return MAX_PAGE if len(digits) > 15 else int(digits)


def get_offset(request: Request) -> int:
    """Return `offset`; 0 for an invalid or missing one."""
    text = request.query_params.get("offset", "")
    digits = text.lstrip("0") if _DIGITS.match(text) else ""
    return MAX_PAGE if len(digits) > 15 else int(digits or "0")


def get_language(request: Request) -> str:
    """Return `language`, English by default. Raise ValidationFailed for an invalid language code."""
    return parse_language(request.query_params.get("language", ""))


def parse_language(text: str) -> str:
    """Return the language code, English for an empty one. Raise ValidationFailed for an invalid one."""
    text = text or DEFAULT_LANGUAGE
    if len(text) > MAX_LANGUAGE_LENGTH or "\x00" in text:
        raise ValidationFailed({"language": ["Send the code of a language, as in en or pt-BR."]})
    return text


def get_boolean(request: Request, name: str) -> bool:
    """Return whether the parameter is `1` or `true`. Raise ValidationFailed if it is not a boolean."""
    text = request.query_params.get(name, "").lower() or "0"
    if text not in BOOLEANS:
        raise ValidationFailed({name: ["Send 1 or 0."]})
    return BOOLEANS[text]
