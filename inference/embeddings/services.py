"""Embedding of texts, for the live routes and for batches."""

import base64
import math
import sys
from array import array

from msgspec.structs import replace

from inference.engine import EmbeddingRequest, EmbeddingResult, InvalidRequest, Usage
from inference.protocol.openai.embeddings import OpenAIEmbedding, OpenAIEmbeddingsResponse
from inference.protocol.token_usage import EmbeddingsTokenUsage
from inference.registry.engines import model_engine
from inference.usage.estimates import estimate_embedding_tokens
from inference.usage.services import admit
from shared.accounts.authentication import Principal


async def embed(
    *, caller: Principal, model_id: str, request: EmbeddingRequest, dimensions: int | None = None
) -> EmbeddingResult:
    """Return vectors in the order of the texts.

    dimensions: cut the vectors to their first numbers and scale them to the length 1; None is all dimensions.

    Raise ApiError MODEL_NOT_FOUND or RATE_LIMIT_EXCEEDED; ModelNotLoaded; InvalidRequest if the model makes no
    embeddings or has fewer dimensions; ContextLengthExceeded for a text that is too long.
    """
    with await admit(caller=caller, model_id=model_id, tokens=estimate_embedding_tokens(request)) as admission:
        result = await model_engine.embed(model_id, replace(request, user=str(caller.user.pk)))
        admission.finish(Usage(result.prompt_tokens, 0))
    return _cut_dimensions(result, model_id, dimensions)


async def embed_for_batch(
    *, model_id: str, request: EmbeddingRequest, dimensions: int | None = None
) -> EmbeddingResult:
    """Return vectors as `embed` does, without limits: a batch's usage is counted with its results."""
    return _cut_dimensions(await model_engine.embed(model_id, request), model_id, dimensions)


def build_openai_response(
    model_id: str, result: EmbeddingResult, encoding_format: str | None
) -> OpenAIEmbeddingsResponse:
    """Return the wire form of OpenAI's API, for the live route and for batches."""
    return OpenAIEmbeddingsResponse(
        object="list",
        data=[
            OpenAIEmbedding("embedding", index, encode_vector(vector, encoding_format))
            for index, vector in enumerate(result.vectors)
        ],
        model=model_id,
        usage=EmbeddingsTokenUsage(result.prompt_tokens, result.prompt_tokens),
    )


def encode_vector(vector: bytes, encoding_format: str | None) -> list[float] | str:
    """Return the numbers of a vector, or its bytes in base64."""
    return base64.b64encode(vector).decode() if encoding_format == "base64" else read_vector(vector).tolist()


def _cut_dimensions(result: EmbeddingResult, model_id: str, dimensions: int | None) -> EmbeddingResult:
    if dimensions is None or dimensions == result.dimensions:
        return result
    if dimensions > result.dimensions:
        raise InvalidRequest(
            f"`dimensions` must be at most {result.dimensions} for {model_id}, not {dimensions}.", field="dimensions"
        )
    vectors = tuple(_cut(vector, dimensions) for vector in result.vectors)
    return replace(result, dimensions=dimensions, vectors=vectors)


def _cut(vector: bytes, dimensions: int) -> bytes:
    numbers = read_vector(vector)[:dimensions]
    length = math.hypot(*numbers) or 1.0
    return _little_endian(array("f", (number / length for number in numbers))).tobytes()


def read_vector(vector: bytes) -> "array[float]":
    """Return the numbers of a vector of little-endian 32-bit floats."""
    return _little_endian(array("f", vector))


def _little_endian(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
