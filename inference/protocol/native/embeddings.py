"""POST /embeddings."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.protocol.native.body import RequestBody
from inference.protocol.token_usage import EmbeddingsTokenUsage


class EmbeddingsRequest(RequestBody):
    """Texts to embed; a single string is a list of one."""

    model: str
    input: str | Annotated[list[str], Meta(min_length=1, max_length=256)]
    encoding_format: Literal["float", "base64"] = "float"

    def texts(self) -> tuple[str, ...]:
        return (self.input,) if isinstance(self.input, str) else tuple(self.input)


class EmbeddingVector(Struct):
    """One vector: numbers, or base64 of little-endian float32."""

    embedding: list[float] | str
    index: int


class EmbeddingsResponse(Struct):
    """Vectors in the order of the input."""

    model: str
    data: list[EmbeddingVector]
    usage: EmbeddingsTokenUsage
