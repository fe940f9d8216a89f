"""Embedding texts."""

import math
import sys
from array import array

from msgspec.structs import replace

from inference.engine import EmbeddingRequest, EmbeddingResult, InvalidRequest, Usage
from inference.registry.engines import engine_for
from inference.usage.estimates import estimate_embedding_tokens
from inference.usage.services import admit
from shared.accounts.authentication import Principal


async def embed(
    *, caller: Principal, model_id: str, request: EmbeddingRequest, dimensions: int | None = None
) -> EmbeddingResult:
    """Vectors in the order of the texts. ApiError MODEL_NOT_FOUND, RATE_LIMIT_EXCEEDED; ModelNotLoaded,
    InvalidRequest: the model makes no embeddings, or none with so many dimensions, ContextLengthExceeded: a text is too
    long.

    dimensions: so many of a vector's first numbers, at length one again; None is all of them.
    """
    with await admit(caller=caller, model_id=model_id, tokens=estimate_embedding_tokens(request)) as admission:
        asked = replace(request, user=str(caller.user.pk))
        result = await engine_for(model_id).embed(model_id, asked)
        admission.finish(Usage(result.prompt_tokens, 0))
    return _of_dimensions(result, model_id, dimensions)


async def embed_for_batch(
    *, model_id: str, request: EmbeddingRequest, dimensions: int | None = None
) -> EmbeddingResult:
    """As `embed`, without the limits of a moment: what a batch uses is counted with its results."""
    return _of_dimensions(await engine_for(model_id).embed(model_id, request), model_id, dimensions)


def _of_dimensions(result: EmbeddingResult, model_id: str, dimensions: int | None) -> EmbeddingResult:
    if dimensions is None or dimensions == result.dimensions:
        return result
    if dimensions > result.dimensions:
        raise InvalidRequest(
            f"dimensions is wrong: the vectors of {model_id} have {result.dimensions}.", field="dimensions"
        )
    vectors = tuple(_shortened(vector, dimensions) for vector in result.vectors)
    return replace(result, dimensions=dimensions, vectors=vectors)


def _shortened(vector: bytes, dimensions: int) -> bytes:
    numbers = read_vector(vector)[:dimensions]
    length = math.hypot(*numbers) or 1.0
    return _little_endian(array("f", (number / length for number in numbers))).tobytes()


def read_vector(vector: bytes) -> "array[float]":
    """The numbers of little-endian float32."""
    return _little_endian(array("f", vector))


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
