"""Snippets of products with the words of a query in `<mark>`. Everything else is escaped for HTML."""

import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape

SNIPPET_LENGTH = 160
MIN_STEM_LENGTH = 4
ENDING_LENGTH = 2  # letters that an inflected word may differ by


def highlight(text: str, words: Iterable[str]) -> str:
    """Return the part of a text around the first word of the query, at most SNIPPET_LENGTH characters and a word."""
    pattern = _pattern(tuple(words))
    first = pattern.search(text) if pattern else None
    start = _word_start(text, max(0, first.start() - SNIPPET_LENGTH // 3)) if first else 0
    end = _word_end(text, start + SNIPPET_LENGTH)
    marked = _mark(text[start:end], pattern)
    return f"{'… ' if start else ''}{marked}{' …' if end < len(text) else ''}"


@lru_cache(maxsize=256)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    stems = [re.escape(_stem(word)) for word in words]
    return re.compile(rf"(?<!\w)(?:{'|'.join(stems)})\w{{0,3}}(?!\w)", re.IGNORECASE) if stems else None


def _stem(word: str) -> str:
    return word[: max(MIN_STEM_LENGTH, len(word) - ENDING_LENGTH)]


def _mark(text: str, pattern: re.Pattern[str] | None) -> str:
    pieces, done = [], 0
    for match in pattern.finditer(text) if pattern else ():
        pieces += [escape(text[done : match.start()]), f"<mark>{escape(match[0])}</mark>"]
        done = match.end()
    return "".join([*pieces, escape(text[done:])])


def _word_start(text: str, position: int) -> int:
    return 0 if position == 0 else max(text.rfind(" ", 0, position) + 1, position - SNIPPET_LENGTH // 3)


def _word_end(text: str, position: int) -> int:
    space = text.find(" ", position)
    return len(text) if position >= len(text) else position if space < 0 else min(space, position + SNIPPET_LENGTH)
