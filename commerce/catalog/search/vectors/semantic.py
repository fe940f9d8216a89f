"""Search by meaning: the products whose vectors are nearest to a query's, or to another product's.

Both models are searched while vectors of a new one are made: each product counts with its newest, and vectors of
different models or sizes are never compared.
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from django.conf import settings

from commerce.catalog.models import Product
from commerce.catalog.search.permitted import PermittedProducts
from commerce.catalog.search.vectors.matrix import Comparison, Matrix, Neighbors, current_matrices
from commerce.model_server.embeddings import (
    MAX_CONCURRENT_CALLS,
    EmbeddingsUnavailable,
    Vector,
    embeddings_client,
)

MAX_NEAREST = 200  # products of a query
MIN_SIMILARITY = 0.15  # below, texts have nothing to do with each other
MIN_SHARE_OF_BEST = 0.5  # of the nearest product's similarity
# The nearest products are listed by maximal marginal relevance (Carbonell and Goldstein, 1998), so that variants of one
# thing do not fill the page of a vague query.
DIVERSIFIED = 40
RELEVANCE_SHARE = 0.8
CALL_TIMEOUT_SECONDS = 0.5
MAX_WAIT_SECONDS = 1.5  # for a thread: a model server that is slow for many queries must not make a queue of them
MAX_CACHED_QUERIES = 4096

_threads = ThreadPoolExecutor(MAX_CONCURRENT_CALLS, thread_name_prefix="query comparison")


@dataclass(frozen=True)
class _Version:
    """A model with its matrix, and the models that come before it, whose products do not count here."""

    matrix: Matrix
    newer: Sequence[Matrix]


class QueryComparison:
    """A query that threads compare with all vectors of a language, while the database looks for its words."""

    def __init__(self, *, text: str, language: str) -> None:
        self._pending = [
            (version, _threads.submit(_compare_query, version.matrix, text)) for version in _versions(language)
        ]

    def nearest_ids(self, permitted: PermittedProducts) -> list[int] | None:
        """Return the ids of the permitted products that are nearest in meaning, the nearest first.

        Return None if the text could not be compared: there are no vectors, or the model server is away or too slow.
        """
        give_up_at = time.monotonic() + MAX_WAIT_SECONDS
        found = []
        for version, pending in self._pending:
            comparison = _wait(pending, give_up_at)
            if comparison is not None:
                found.append((_select(version, comparison, permitted), len(version.matrix)))
        return _merge(found) if found else None


def similar_ids(*, product: Product, permitted: PermittedProducts, limit: int) -> list[int]:
    """Return the ids of the permitted products that are nearest to a product."""
    for version in _versions(product.language):
        vector = version.matrix.vector_of(product.pk)
        if vector is not None:
            comparison = version.matrix.compare(vector)
            nearest = _permitted(_Version(version.matrix, ()), comparison, permitted, limit)
            return [int(pk) for pk in nearest.product_ids]
    return []


def _versions(language: str) -> list[_Version]:
    """Return the models that have vectors, the one of the settings first."""
    if not settings.SEARCH_MODEL:
        return []
    matrices = sorted(current_matrices(language), key=lambda matrix: matrix.model != settings.SEARCH_MODEL)
    return [_Version(matrix, matrices[:number]) for number, matrix in enumerate(matrices)]


def _compare_query(matrix: Matrix, text: str) -> Comparison | None:
    vector = _embed_query(matrix, text)
    return None if vector is None else matrix.compare(vector)


def _wait(pending: Future[Comparison | None], give_up_at: float) -> Comparison | None:
    try:
        return pending.result(max(0.0, give_up_at - time.monotonic()))
    except TimeoutError:
        pending.cancel()
        return None


def _embed_query(matrix: Matrix, text: str) -> Vector | None:
    normalized = " ".join(text.split())
    try:
        vector = _embed(settings.DESCRIPTIONS_BASE_URL, settings.DESCRIPTIONS_API_KEY, matrix.model, normalized)
    except EmbeddingsUnavailable:
        return None
    return vector if len(vector) == matrix.dimensions else None


@lru_cache(maxsize=MAX_CACHED_QUERIES)
def _embed(base_url: str, api_key: str, model: str, text: str) -> Vector:
    client = embeddings_client(base_url=base_url, api_key=api_key, timeout_seconds=CALL_TIMEOUT_SECONDS)
    return client.embed(model, [text])[0]


def forget_queries() -> None:
    """Drop the vectors of queries: the model server has been replaced, as in a test."""
    _embed.cache_clear()


def _select(version: _Version, comparison: Comparison, permitted: PermittedProducts) -> list[int]:
    nearest = _permitted(version, comparison, permitted, MAX_NEAREST)
    if not len(nearest.product_ids):
        return []
    is_near = nearest.similarities >= max(MIN_SIMILARITY, MIN_SHARE_OF_BEST * float(nearest.similarities[0]))
    return _diversify(_take(nearest, np.flatnonzero(is_near)))


def _permitted(version: _Version, comparison: Comparison, permitted: PermittedProducts, limit: int) -> Neighbors:
    """Return the nearest of the permitted products."""
    nearest = comparison.nearest(0)

    def find(count: int) -> list[int]:
        nonlocal nearest
        nearest = comparison.nearest(count)
        return [int(product_id) for product_id in nearest.product_ids]

    best = set(permitted.best(find, limit))
    for newer in version.newer:
        best = {product_id for product_id in best if not newer.has(product_id)}
    return _take(nearest, np.flatnonzero(np.isin(nearest.product_ids, list(best))))


def _diversify(nearest: Neighbors) -> list[int]:
    """Return the ids, of which the first are chosen one by one: near to the query, and unlike those chosen before."""
    alike = nearest.vectors @ nearest.vectors.T
    likeness = np.zeros(len(alike), np.float32)  # to the most similar one that is chosen
    scores = RELEVANCE_SHARE * nearest.similarities
    chosen: list[int] = []
    for _ in range(min(DIVERSIFIED, len(alike))):
        best = int(np.argmax(scores - (1 - RELEVANCE_SHARE) * likeness))
        chosen.append(best)
        scores[best] = -np.inf
        likeness = np.maximum(likeness, alike[best])
    rest = np.setdiff1d(np.arange(len(alike)), chosen)
    return [int(pk) for pk in nearest.product_ids[[*chosen, *rest]]]


def _take(nearest: Neighbors, positions: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Neighbors:
    return Neighbors(nearest.product_ids[positions], nearest.similarities[positions], nearest.vectors[positions])


def _merge(found: Iterable[tuple[Sequence[int], int]]) -> list[int]:
    """Merge the results of models, each with its number of products.

    A product that is the n-th among a tenth of all products is about the 10 n-th of all.
    """
    positions = [(rank / count, pk) for ids, count in found for rank, pk in enumerate(ids, 1)]
    return [pk for _, pk in sorted(positions)][:MAX_NEAREST]
