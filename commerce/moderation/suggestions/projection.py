"""Projection of long vectors, so that those of every model cost the same to store, to compare and to learn from."""

from functools import lru_cache

import numpy as np

from commerce.model_server.embeddings import Vector

MAX_PART_SIZE = 384  # numbers a text: cosines change by 0.05 at most, those near 1 by a tenth of it
SEED = 20_261_126


def part_size(dimensions: int) -> int:
    """Return the numbers that are stored of a vector with these dimensions."""
    return min(dimensions, MAX_PART_SIZE)


def project(vector: Vector) -> Vector:
    """Return a vector of length 1 and `part_size`: itself, or a random projection that is the same everywhere."""
    if len(vector) <= MAX_PART_SIZE:
        return vector
    projected = _signs(len(vector)) @ vector
    return projected / np.float32(max(float(np.linalg.norm(projected)), 1e-9))


@lru_cache(maxsize=2)
def _signs(dimensions: int) -> Vector:
    """Return a matrix of 1 and -1 from a bit generator, whose stream no version of NumPy changes."""
    words = np.random.PCG64(SEED).random_raw(-(-MAX_PART_SIZE * dimensions // 64))
    bits = np.unpackbits(words.astype("<u8").view(np.uint8))[: MAX_PART_SIZE * dimensions]
    return (bits.reshape(MAX_PART_SIZE, dimensions).astype(np.float32) * 2) - 1
