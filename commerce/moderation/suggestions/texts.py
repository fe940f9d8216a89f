"""Texts of a case that are compared, and features of them that an embedding does not tell."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from commerce.moderation.reportable_content import Reportable
from commerce.reviews.models import Review

MAX_REPORTS = 10
LINK_MARKS = ("http:", "https:", "www.", ".com", ".net", ".org", ".example", " dot ", "t.me/", "@")
MIN_PHONE_DIGITS = 7
FIRST_SYMBOL = 0x2190  # arrows, symbols, emoji


def content_text(content: Reportable) -> str:
    """Return the text of a review or question, without the shop's answer."""
    return _normalized(content.comment if isinstance(content, Review) else content.question)


def content_rating(content: Reportable) -> int | None:
    return content.rating if isinstance(content, Review) else None


def recorded_text(content: Mapping[str, Any]) -> str:
    """Return the text of the record of a decision."""
    return _normalized(content.get("comment") or content.get("question") or "")


def reports_text(messages: Sequence[str]) -> str:
    """Return the messages of reports, the newest first, as one text."""
    return _normalized("\n".join(messages[:MAX_REPORTS]))


def fingerprint_of(content: str, reports: str, rating: int | None = None) -> str:
    """Return a hash that changes with either text and with the rating."""
    return hashlib.blake2b(f"{content}\0{reports}\0{rating}".encode(), digest_size=16).hexdigest()


def text_features(text: str) -> list[float]:
    """Return numbers from 0 to about 1: link, telephone number, length, capitals, question, symbols."""
    lower = text.lower()
    return [
        float(any(mark in lower for mark in LINK_MARKS)),
        float(sum(map(str.isdigit, text)) >= MIN_PHONE_DIGITS),
        math.log1p(len(text)) / 5,
        sum(map(str.isupper, text)) / max(len(text), 1),
        float("?" in text),
        float(any(ord(character) >= FIRST_SYMBOL for character in text)),
    ]


def _normalized(text: str) -> str:
    return " ".join(text.split())
