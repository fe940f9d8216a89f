"""Query parameters of analytics: `from`, `to`, `shop_id`, `currency`, `language`, `compare`."""

import re
from datetime import date

from rest_framework.request import Request

from commerce.analytics.reports.date_ranges import MAX_DATE, MIN_DATE, DateRange
from shared.api.errors import ValidationFailed
from shared.api.query_params import get_language, parse_integer

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}\Z", re.ASCII)


def parse_date_range(request: Request, today: date) -> DateRange | None:
    """Return the range of `from` and `to`, or None if neither is sent.

    `from` defaults to MIN_DATE, `to` to today. Raise ValidationFailed for invalid dates.
    """
    if not request.query_params.get("from") and not request.query_params.get("to"):
        return None
    first, last = _parse_date(request, "from") or MIN_DATE, _parse_date(request, "to") or max(today, MIN_DATE)
    if last < first:
        raise ValidationFailed({"to": ["Send a date that is not before `from`."]})
    return DateRange(first, last)


def parse_compare(request: Request) -> bool:
    """Return whether `compare` is `previous`. Raise ValidationFailed for other values, and without `from`."""
    text = request.query_params.get("compare", "")
    if text not in ("", "previous"):
        raise ValidationFailed({"compare": ["Send `previous`, or omit it."]})
    if text and not request.query_params.get("from"):
        raise ValidationFailed({"compare": ["Send `from` too: the days before it are compared."]})
    return bool(text)


def parse_shop_id(request: Request) -> int | None:
    """Return `shop_id`. Raise ValidationFailed unless it is a whole number."""
    text = request.query_params.get("shop_id", "")
    number = parse_integer(text) if text else None
    if text and number is None:
        raise ValidationFailed({"shop_id": ["Send a whole number."]})
    return number


def parse_currency(request: Request) -> str | None:
    """Return `currency`. Raise ValidationFailed unless it has the form of an ISO 4217 code."""
    text = request.query_params.get("currency", "")
    if text and not _CURRENCY.match(text):
        raise ValidationFailed({"currency": ["Send three capital letters, such as EUR."]})
    return text or None


def parse_language(request: Request) -> str | None:
    """Return `language`. Raise ValidationFailed unless it has the form of a language code."""
    language = get_language(request)
    return language if request.query_params.get("language") else None


def _parse_date(request: Request, name: str) -> date | None:
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        day = date.fromisoformat(text) if _DATE.match(text) else None
    except ValueError:
        day = None
    if day is None or not MIN_DATE <= day <= MAX_DATE:
        raise ValidationFailed({name: [f"Send a date from {MIN_DATE} to {MAX_DATE}, such as 2026-01-31."]})
    return day
