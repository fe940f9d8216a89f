"""The vectors of this process: one matrix for each model and language, compared exactly with a query's vector.

A matrix says what is near, never what a user may see: `semantic` asks the products. It follows the table by the highest
id that it has read, and is read anew once a minute if rows have gone.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from django.db import connection
from django.db.models import QuerySet
from numpy.typing import NDArray

from commerce.catalog.search.models import ProductVector
from commerce.model_server.embeddings import Vector
from shared.api.limits.query_limits import pause_query_time

READ_SIZE = 2000  # rows of the table that are converted at once
MIN_CAPACITY = 1024
COUNT_SECONDS = 60.0

# Models with vectors, with the length of these, and the last row of each in a language.
LAST_ROWS = """
    SELECT name, dimensions, (
        SELECT max(id) FROM commerce_search_productvector
        WHERE model = name AND language = %s AND dimensions = commerce_search_embeddingmodel.dimensions
    )
    FROM commerce_search_embeddingmodel WHERE dimensions IS NOT NULL
"""

_matrices: dict[tuple[str, str, int], "Matrix"] = {}
_creation = threading.Lock()


@dataclass(frozen=True)
class Neighbors:
    """Products near a vector, the nearest first: ids, similarities from -1 to 1, and their vectors as rows."""

    product_ids: NDArray[np.int64]
    similarities: Vector
    vectors: NDArray[np.float32]


@dataclass(frozen=True)
class Comparison:
    """All vectors of a matrix with their similarities to one. Replaced rows have id 0."""

    ids: NDArray[np.int64]
    similarities: Vector
    rows: NDArray[np.float32]

    def nearest(self, limit: int) -> Neighbors:
        """Return up to `limit` products, exactly the nearest."""
        count = min(limit, len(self.ids))
        best = np.argpartition(-self.similarities, count - 1)[:count] if count else np.zeros(0, np.int64)
        best = best[np.lexsort((-self.ids[best], -self.similarities[best]))]
        best = best[self.ids[best] > 0]
        return Neighbors(self.ids[best], self.similarities[best], self.rows[best])


@dataclass
class Matrix:
    """Vectors of one model, language and size. Threads may share it: rows are appended, and replaced ones have id 0."""

    model: str
    language: str
    dimensions: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _count_at: float = 0.0  # of the monotonic clock: when the rows of the table are counted next

    def __post_init__(self) -> None:
        self._clear()

    def __len__(self) -> int:
        return len(self._positions)

    def has(self, product_id: int) -> bool:
        return product_id in self._positions

    def vector_of(self, product_id: int) -> Vector | None:
        position = self._positions.get(product_id)
        return None if position is None else self._rows[position]

    def is_current(self, last_id: int) -> bool:
        """Return whether the rows up to this id of the table have been read, and counted of late."""
        return self._last_id >= last_id and time.monotonic() < self._count_at

    def refresh(self) -> None:
        """Read what is new. While another thread reads, return at once."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._append_new()
            if self._is_outdated():
                self._clear()
                self._append_new()
        finally:
            self._lock.release()

    def compare(self, vector: Vector) -> Comparison:
        """Return the similarities of all products to a vector: 100,000 of 384 numbers take some 15 ms."""
        size = self._size  # first: both arrays have so many rows, whatever another thread appends
        ids, rows = self._ids[:size], self._rows[:size]
        if len(ids) != len(rows):  # just cleared
            ids, rows = ids[:0], rows[:0]
        return Comparison(ids, np.where(ids > 0, rows @ vector, np.float32(-2)), rows)

    def _is_outdated(self) -> bool:
        """Return whether most rows are replaced, or rows of the table have gone."""
        if self._size > 2 * len(self._positions) + MIN_CAPACITY:
            return True
        if time.monotonic() < self._count_at:
            return False
        self._count_at = time.monotonic() + COUNT_SECONDS
        return self._stored().count() != len(self._positions)

    def _clear(self) -> None:
        self._ids = np.zeros(0, np.int64)
        self._rows = np.zeros((0, self.dimensions), np.float32)
        self._positions: dict[int, int] = {}
        self._size, self._last_id = 0, 0
        self._count_at = time.monotonic() + COUNT_SECONDS

    def _stored(self) -> "QuerySet[ProductVector]":
        return ProductVector.objects.filter(model=self.model, language=self.language, dimensions=self.dimensions)

    def _append_new(self) -> None:
        for row_ids, product_ids, vectors in self._read_new():
            self._reserve(self._size + len(product_ids))
            end = self._size + len(product_ids)
            self._rows[self._size : end], self._ids[self._size : end] = vectors, product_ids
            for position, product_id in enumerate(product_ids, self._size):
                if (replaced := self._positions.get(product_id)) is not None:
                    self._ids[replaced] = 0
                self._positions[product_id] = position
            self._size, self._last_id = end, row_ids[-1]

    def _read_new(self) -> Iterator[tuple[list[int], list[int], NDArray[np.float16]]]:
        while True:
            rows = self._stored().filter(pk__gt=self._last_id).order_by("pk")
            new = list(rows.values_list("pk", "product_id", "vector")[:READ_SIZE])
            if not new:
                return
            row_ids, product_ids, vectors = zip(*new, strict=True)
            matrix = np.frombuffer(b"".join(vectors), "<f2").reshape(len(new), self.dimensions)
            yield list(row_ids), list(product_ids), matrix
            if len(new) < READ_SIZE:
                return

    def _reserve(self, size: int) -> None:
        """Make space for so many rows, in new arrays, because other threads still read the old ones."""
        if size <= len(self._ids):
            return
        capacity = max(MIN_CAPACITY, size + size // 4)
        ids, rows = np.zeros(capacity, np.int64), np.zeros((capacity, self.dimensions), np.float32)
        ids[: self._size], rows[: self._size] = self._ids[: self._size], self._rows[: self._size]
        self._ids, self._rows = ids, rows


def current_matrix(model: str, language: str, dimensions: int) -> Matrix:
    """Return this process's matrix, up to date."""
    key = (model, language, dimensions)
    with _creation:
        matrix = _matrices.setdefault(key, Matrix(*key))
    with pause_query_time():  # a process reads a hundred thousand vectors once
        matrix.refresh()
    return matrix


def current_matrices(language: str) -> list[Matrix]:
    """Return this process's matrices of a language, up to date: one for each model that has vectors."""
    with connection.cursor() as cursor:
        cursor.execute(LAST_ROWS, [language])
        stored = cursor.fetchall()
    matrices = []
    for model, dimensions, last_id in stored:
        if last_id is None:  # requests may name any language
            continue
        matrix = _matrices.get((model, language, dimensions))
        if matrix is None or not matrix.is_current(last_id):
            matrix = current_matrix(model, language, dimensions)
        matrices.append(matrix)
    return [matrix for matrix in matrices if len(matrix)]


def forget_matrices() -> None:
    """Drop all matrices: their table has been replaced, as in a test."""
    _matrices.clear()
