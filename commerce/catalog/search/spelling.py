"""Correction of misspelled words to words of the products."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from rapidfuzz.distance import OSA

from commerce.catalog.search.permitted import PermittedProducts
from commerce.catalog.search.text_index import text_index
from commerce.catalog.search.words import MAX_SPELLING_LENGTH, MIN_SPELLING_LENGTH

MAX_CANDIDATES = 100
SAMPLE_SIZE = 10  # products with a word, of which a user mostly sees one
MAX_SPELLINGS = 3
MAX_NEAR_WORDS = 10  # of which each is looked up
MIN_LENGTH_OF_TWO_MISTAKES = 6


def spellings(words: Sequence[str], language: str, products: PermittedProducts) -> list[list[str]]:
    """Return for each word itself and, if none of `products` has it, the most similar words that some have.

    No word is returned that only other products have, such as the drafts of a shop.
    """
    correctable = [word for word in words if word.isalpha() and MIN_SPELLING_LENGTH <= len(word) <= MAX_SPELLING_LENGTH]
    known = _known(correctable, language, products)
    near = _near_words([word for word in correctable if word not in known], language)
    permitted = _known(list({other for distances in near.values() for other in distances}), language, products)
    return [[word, *_nearest(near.get(word, {}), permitted)] for word in words]


def _nearest(distances: Mapping[str, int], permitted: Collection[str]) -> list[str]:
    words = [word for word in distances if word in permitted]
    return [word for word in words if distances[word] == distances[words[0]]][:MAX_SPELLINGS]


def _known(words: Sequence[str], language: str, products: PermittedProducts) -> set[str]:
    """Return those of the words that some of `products` have."""
    if not words:
        return set()
    samples = dict(zip(words, text_index().ids_with(words, language, SAMPLE_SIZE), strict=True))
    sample_ids = {product_id for ids in samples.values() for product_id in ids}
    permitted = products.among(sample_ids)
    known = {word for word, ids in samples.items() if not permitted.isdisjoint(ids)}
    hidden = [word for word, ids in samples.items() if word not in known and len(ids) == SAMPLE_SIZE]
    return known | {word for word in hidden if _is_known(word, language, products)}


def _is_known(word: str, language: str, products: PermittedProducts) -> bool:
    return bool(products.best(lambda count: text_index().ids_with([word], language, count)[0], 1))


def _near_words(unknown: Sequence[str], language: str) -> dict[str, dict[str, int]]:
    """Return the most similar words of each word with content, with their distances."""
    candidates = text_index().similar_words(unknown, language, MAX_CANDIDATES) if unknown else []
    return {word: _near(word, similar) for word, similar in zip(unknown, candidates, strict=True)}


def _near(word: str, candidates: Iterable[str]) -> dict[str, int]:
    """Return the distances of the most similar words, the nearest first."""
    limit = 2 if len(word) >= MIN_LENGTH_OF_TWO_MISTAKES else 1
    others = [candidate for candidate in candidates if candidate != word]
    distances = {other: OSA.distance(word, other, score_cutoff=limit) for other in others}
    near = sorted(distances.items(), key=lambda item: item[1])
    return {candidate: distance for candidate, distance in near[:MAX_NEAR_WORDS] if distance <= limit}
