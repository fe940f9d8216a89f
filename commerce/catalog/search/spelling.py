"""Correction of misspelled words to words of the products."""

from collections.abc import Iterable

from django.db.models import QuerySet

from commerce.catalog.models import Product
from commerce.catalog.search.text_index import text_index
from commerce.catalog.search.words import MAX_SPELLING_LENGTH, MIN_SPELLING_LENGTH

MAX_CANDIDATES = 100
MAX_SPELLINGS = 3
MAX_NEAR_WORDS = 10  # of which each is looked up
MIN_LENGTH_OF_TWO_MISTAKES = 6


def spellings(word: str, language: str, products: "QuerySet[Product]") -> list[str]:
    """Return the word itself and, if none of `products` has it, the most similar words that some have.

    No word is returned that only other products have, such as the drafts of a shop.
    """
    is_correctable = word.isalpha() and MIN_SPELLING_LENGTH <= len(word) <= MAX_SPELLING_LENGTH
    if not is_correctable or text_index().has_match(word, language, products):
        return [word]
    distances = _near(word, text_index().similar_words(word, language, MAX_CANDIDATES))
    permitted = [near for near in distances if text_index().has_match(near, language, products)]
    nearest = [near for near in permitted if distances[near] == distances[permitted[0]]]
    return [word, *nearest[:MAX_SPELLINGS]]


def _near(word: str, candidates: Iterable[str]) -> dict[str, int]:
    """Return the distances of the most similar words, the nearest first."""
    limit = 2 if len(word) >= MIN_LENGTH_OF_TWO_MISTAKES else 1
    distances = {candidate: edit_distance(word, candidate, limit) for candidate in candidates if candidate != word}
    near = sorted(distances.items(), key=lambda item: item[1])
    return {candidate: distance for candidate, distance in near[:MAX_NEAR_WORDS] if distance <= limit}


def edit_distance(first: str, second: str, limit: int) -> int:
    """Return the number of letters to insert, delete, replace or swap with a neighbor; `limit` + 1 if it is larger."""
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        before, last, row = row, before, [i]
        for j, other in enumerate(second, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and other == first[i - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
