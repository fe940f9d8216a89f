"""Words of queries and products. Nothing but letters and digits of any script passes, so no operator of a database."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

MAX_QUERY_WORDS = 16
MAX_WORD_LENGTH = 64
MIN_SPELLING_LENGTH = 4  # letters of words that are corrected, and to which they are
MAX_SPELLING_LENGTH = 32
ENGLISH = "en"
MAX_RANKED = 3000  # products that are ranked for a query, of those with its words
MAX_SELECTED = 1500  # products with the words that select

_WORD = re.compile(r"[^\W_]+")
# Words without content. PostgreSQL has lists of its own; without one, SQLite would rank most products of a large shop.
_STOP_WORDS_TEXT = (
    # English
    "a about am an and any are as at be by can could do does for from get has have how i if in into is it its me my "
    "need no not of off on or our so some something that the their them then there these they thing things this those "
    "to too up us want was we what when where which while who will with without would you your "
    # German
    "als am auf aus bei bis das dem den der des die durch ein eine einem einen einer es etwas für hat habe ich im ist "
    "kein keine mein meine meinen meiner mir mich mit nach nicht ob ohne sich sie sind so um und von vom was wer wie "
    "wir wird wo zu zum zur "
    # Spanish and French
    "al con de del desde el ella en esta este la las lo los mi mis muy para pero por que se sin su sus te tengo un una "
    "y au aux avec ce ces dans du elle et il je le les ma mes mon ne nous ou par pas pour qui sa ses son sur une "
    "vous"
)
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


@dataclass(frozen=True)
class FoundWord:
    """A word in the index: the number of products that have it and the ids of some, both up to a limit."""

    count: int
    product_ids: Sequence[int]
    has_content: bool = True


@dataclass(frozen=True)
class SpelledWord:
    """A word of a query with its corrections, and the number of products that have one of them, up to a limit."""

    spellings: Sequence[str]
    count: int


@dataclass(frozen=True)
class RankedWord(SpelledWord):
    """A word of a query that products have.

    Products need a word that `selects`. The common words only rank those, or most of a large shop would be ranked.
    """

    selects: bool


def rank_words(words: Sequence[SpelledWord]) -> list[RankedWord]:
    """Return the words that products have, the rarest first, which select."""
    ranked: list[RankedWord] = []
    total = 0
    for word in sorted((word for word in words if word.count), key=lambda word: (word.count, list(word.spellings))):
        total += word.count
        ranked.append(RankedWord(word.spellings, word.count, selects=not ranked or total <= MAX_SELECTED))
    return ranked


def query_words(text: str) -> list[str]:
    """Return the different words of a query in lower case, without stop words unless there are no others."""
    words = list(dict.fromkeys(word[:MAX_WORD_LENGTH] for word in _words(text)))
    return ([word for word in words if word not in _STOP_WORDS] or words)[:MAX_QUERY_WORDS]


def spelling_words(text: str) -> set[str]:
    """Return the words of a product to which misspelled words are corrected."""
    return {word for word in _words(text) if word.isalpha() and MIN_SPELLING_LENGTH <= len(word) <= MAX_SPELLING_LENGTH}


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())
