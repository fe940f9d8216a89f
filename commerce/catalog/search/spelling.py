"""Correction of misspelled words to words of the products."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from rapidfuzz.distance import OSA

from commerce.catalog.search.permitted import PermittedProducts
from commerce.catalog.search.text_index import text_index
from commerce.catalog.search.words import (
    MAX_SELECTED,
    MAX_SPELLING_LENGTH,
    MIN_SPELLING_LENGTH,
    FoundWord,
    SpelledWord,
)

MAX_CANDIDATES = 100
SAMPLE_SIZE = 10  # products with a word, of which a user mostly sees one
MAX_SPELLINGS = 3
MAX_NEAR_WORDS = 10  # of which each is looked up
MIN_LENGTH_OF_TWO_MISTAKES = 6
MAX_COUNT = MAX_SELECTED + 1


def spell_words(words: Sequence[str], language: str, products: PermittedProducts) -> list[SpelledWord]:
    """Return each word with, if none of `products` has it, the most similar words that some have.

    No word is returned that only other products have, such as the drafts of a shop.
    """
    if not words:
        return []
    found = _find(words, language, max_count=MAX_COUNT)
    spellings = _spellings(found, language, products)
    corrected = [word for word in words if len(spellings[word]) > 1]
    counts = {word: found[word].count for word in words}
    if corrected:
        with_corrections = text_index().count_matches([spellings[word] for word in corrected], language, MAX_COUNT)
        counts |= dict(zip(corrected, with_corrections, strict=True))
    return [SpelledWord(spellings[word], counts[word]) for word in words]


def _find(words: Sequence[str], language: str, *, max_count: int = SAMPLE_SIZE) -> dict[str, FoundWord]:
    found = text_index().find_words(words, language, max_count=max_count, max_ids=SAMPLE_SIZE)
    return dict(zip(words, found, strict=True))


def _spellings(found: Mapping[str, FoundWord], language: str, products: PermittedProducts) -> dict[str, list[str]]:
    """Return each word with its corrections."""
    correctable = {word: match for word, match in found.items() if _is_correctable(word) and match.has_content}
    near = _near_words([word for word, match in correctable.items() if not match.product_ids], language)
    known = _known(correctable | _find_near(near, language), language, products)
    if hidden := [word for word in correctable if word not in near and word not in known]:
        near_hidden = _near_words(hidden, language)
        known |= _known(_find_near(near_hidden, language), language, products)
        near |= near_hidden
    return {word: [word, *_nearest(near.get(word, {}), known)] for word in found}


def _is_correctable(word: str) -> bool:
    return word.isalpha() and MIN_SPELLING_LENGTH <= len(word) <= MAX_SPELLING_LENGTH


def _nearest(distances: Mapping[str, int], permitted: Collection[str]) -> list[str]:
    words = [word for word in distances if word in permitted]
    return [word for word in words if distances[word] == distances[words[0]]][:MAX_SPELLINGS]


def _known(found: Mapping[str, FoundWord], language: str, products: PermittedProducts) -> set[str]:
    """Return those of the words that some of `products` have."""
    permitted = products.among({product_id for match in found.values() for product_id in match.product_ids})
    known = {word for word, match in found.items() if not permitted.isdisjoint(match.product_ids)}
    hidden = [word for word, match in found.items() if word not in known and len(match.product_ids) == SAMPLE_SIZE]
    return known | {word for word in hidden if _is_known(word, language, products)}


def _is_known(word: str, language: str, products: PermittedProducts) -> bool:
    def find(count: int) -> Sequence[int]:
        ids: Sequence[int] = text_index().find_words([word], language, max_count=count, max_ids=count)[0].product_ids
        return ids

    return bool(products.best(find, 1))


def _find_near(near: Mapping[str, Mapping[str, int]], language: str) -> dict[str, FoundWord]:
    words = list({other for distances in near.values() for other in distances})
    return _find(words, language) if words else {}


def _near_words(unknown: Sequence[str], language: str) -> dict[str, dict[str, int]]:
    """Return the most similar words of each word, with their distances."""
    candidates = text_index().similar_words(unknown, language, MAX_CANDIDATES) if unknown else []
    return {word: _near(word, similar) for word, similar in zip(unknown, candidates, strict=True)}


def _near(word: str, candidates: Iterable[str]) -> dict[str, int]:
    """Return the distances of the most similar words, the nearest first."""
    limit = 2 if len(word) >= MIN_LENGTH_OF_TWO_MISTAKES else 1
    others = [candidate for candidate in candidates if candidate != word]
    distances = {other: OSA.distance(word, other, score_cutoff=limit) for other in others}
    near = sorted(distances.items(), key=lambda item: item[1])
    return {candidate: distance for candidate, distance in near[:MAX_NEAR_WORDS] if distance <= limit}
