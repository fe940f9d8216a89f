"""OpenAI's embeddings."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.protocol.openai.text_inputs import TextInput, TextInputs, read_text_inputs
from inference.protocol.token_usage import EmbeddingsTokenUsage

MAX_INPUTS = 256

Dimensions = Annotated[int, Meta(ge=1, le=2**31 - 1, description="So many of the first numbers, at length one again.")]


class OpenAIEmbeddingsRequest(Struct, kw_only=True):
    """POST /v1/embeddings."""

    model: str
    input: Annotated[
        TextInputs, Meta(description="A text, several (at most 256), token ids, or several arrays of them.")
    ]
    dimensions: Dimensions | None = None
    encoding_format: Literal["float", "base64"] | None = None

    def texts(self) -> tuple[TextInput, ...]:
        """InvalidRequest: a mixture of texts and tokens, or too many of them."""
        return read_text_inputs(self.input, field="input", most=MAX_INPUTS)


class OpenAIEmbedding(Struct):
    """One vector: numbers, or base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class OpenAIEmbeddingsResponse(Struct):
    """Vectors in the order of the input."""

    object: Literal["list"]
    data: list[OpenAIEmbedding]
    model: str
    usage: EmbeddingsTokenUsage
