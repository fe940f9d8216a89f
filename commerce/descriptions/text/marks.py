"""Marks of the words in a text that are not in the product's data."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TextPart:
    """A part of a text. The parts of a text, joined, are the text."""

    text: str
    is_marked: bool = False


def mark_phrases(text: str, phrases: Sequence[str]) -> list[TextPart]:
    """Return the text in parts, of which those are marked that are one of the phrases, whatever their case or number.

    The words of a phrase may be joined otherwise, as in "eco-friendly".
    """
    return [part for part in _parts(text, phrases) if part.text]


def _parts(text: str, phrases: Sequence[str]) -> Iterator[TextPart]:
    end = 0
    for found in _pattern(phrases).finditer(text) if phrases else ():
        yield TextPart(text[end : found.start()])
        yield TextPart(found[0], is_marked=True)
        end = found.end()
    yield TextPart(text[end:])


def _pattern(phrases: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(phrases, key=len, reverse=True)
    return re.compile("|".join(map(_phrase_pattern, longest_first)), re.IGNORECASE)


def _phrase_pattern(phrase: str) -> str:
    joined = r"[\W_]+".join(re.escape(word).replace("'", "['\u2019]") for word in phrase.split())
    if phrase[0].isdigit():  # a number, which its unit may follow
        return rf"(?<![\w.,]){joined}(?!\d|[.,]\d)"
    return rf"(?<!\w){joined}s?(?!\w)"
