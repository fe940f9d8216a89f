"""What the figures may be asked: `from`, `to`, `shop_id`, `currency`, `language`, `compare`."""

import re
from datetime import date

from rest_framework.request import Request

from commerce.analytics.calendars import Span
from shared.api.errors import ValidationFailed
from shared.api.query import query_language, whole_number

FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2099, 12, 31)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}\Z", re.ASCII)


def asked_span(request: Request, today: date) -> Span | None:
    """The days of `from` and `to`, which are today and the first of all where they are not sent; None without both.
    Raises ValidationFailed for what are no days."""
    if not request.query_params.get("from") and not request.query_params.get("to"):
        return None
    first, last = _asked_day(request, "from") or FIRST_DAY, _asked_day(request, "to") or max(today, FIRST_DAY)
    if last < first:
        raise ValidationFailed({"to": ["Send a day that is not before `from`."]})
    return Span(first, last)


def asked_comparison(request: Request) -> bool:
    """Whether `compare=previous` was asked. Raises ValidationFailed for anything else, and without `from`."""
    text = request.query_params.get("compare", "")
    if text not in ("", "previous"):
        raise ValidationFailed({"compare": ["Send previous, or leave it out."]})
    if text and not request.query_params.get("from"):
        raise ValidationFailed({"compare": ["Send `from` too: what is compared are the days before it."]})
    return bool(text)


def asked_shop(request: Request) -> int | None:
    """`shop_id`. Raises ValidationFailed for what is no number."""
    text = request.query_params.get("shop_id", "")
    number = whole_number(text) if text else None
    if text and number is None:
        raise ValidationFailed({"shop_id": ["Send a whole number."]})
    return number


def asked_currency(request: Request) -> str | None:
    """`currency`. Raises ValidationFailed for what is no code."""
    text = request.query_params.get("currency", "")
    if text and not _CURRENCY.match(text):
        raise ValidationFailed({"currency": ["Send three capital letters, as in EUR."]})
    return text or None


def asked_language(request: Request) -> str | None:
    """`language`. Raises ValidationFailed for what is no name of one."""
    language = query_language(request)
    return language if request.query_params.get("language") else None


def _asked_day(request: Request, name: str) -> date | None:
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        day = date.fromisoformat(text) if _DATE.match(text) else None
    except ValueError:
        day = None
    if day is None or not FIRST_DAY <= day <= LAST_DAY:
        raise ValidationFailed({name: [f"Send a day from {FIRST_DAY} to {LAST_DAY}, as in 2026-01-31."]})
    return day
