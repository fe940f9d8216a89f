"""Correction of misspelled words to words of the products."""

from collections.abc import Iterable

from commerce.catalog.search.text_index import text_index
from commerce.catalog.search.words import MAX_SPELLING_LENGTH, MIN_SPELLING_LENGTH

MAX_CANDIDATES = 100
MAX_SPELLINGS = 3
MIN_LENGTH_OF_TWO_MISTAKES = 6


def spellings(word: str, language: str) -> list[str]:
    """Return the word itself and, if no product has it, the most similar words that products have."""
    is_correctable = word.isalpha() and MIN_SPELLING_LENGTH <= len(word) <= MAX_SPELLING_LENGTH
    if not is_correctable or text_index().has_match(word, language):
        return [word]
    return [word, *_nearest(word, text_index().similar_words(word, language, MAX_CANDIDATES))]


def _nearest(word: str, candidates: Iterable[str]) -> list[str]:
    limit = 2 if len(word) >= MIN_LENGTH_OF_TWO_MISTAKES else 1
    distances = {candidate: edit_distance(word, candidate, limit) for candidate in candidates if candidate != word}
    least = min(distances.values(), default=limit + 1)
    nearest = [candidate for candidate, distance in distances.items() if distance == least]
    return nearest[:MAX_SPELLINGS] if least <= limit else []


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
