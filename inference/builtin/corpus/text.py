"""Text functions: lists, capitals, and the search for repeated words and phrases."""

import re
from collections.abc import Sequence

from inference.builtin.corpus.templates import STOP_WORDS


def join_words(items: Sequence[str]) -> str:
    """Return the items as an English list: "a", "a and b", "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def capitalised(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def content_words(text: str) -> set[str]:
    """Return the words of a text that a reader would notice twice, without their endings."""
    words = re.findall(r"[a-z]+", text.lower())
    return {re.sub(r"(ing|ies|es|ed|s|y|e)$", "", word) for word in words if len(word) > 3 and word not in STOP_WORDS}


def repeated_five_grams(text: str) -> bool:
    """Return whether five words in a row occur twice in the text."""
    words = re.findall(r"[\w'%&-]+", text.lower())
    grams = [tuple(words[i : i + 5]) for i in range(len(words) - 4)]
    return len(set(grams)) < len(grams)
