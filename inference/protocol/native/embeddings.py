"""Wire structs of POST /embeddings."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.protocol.fields import ModelId
from inference.protocol.native.body import RequestBody
from inference.protocol.token_usage import EmbeddingsTokenUsage

MAX_TEXTS = 2048

EncodingFormat = Annotated[
    Literal["float", "base64"],
    Meta(description="Form of the vectors: numbers, or base64 of little-endian 32-bit floats."),
]
Vector = Annotated[
    list[float] | str,
    Meta(
        description="Vector of the text: numbers, or base64 of little-endian 32-bit floats.",
        examples=[[0.0122, 0.0339, -0.1152]],
    ),
]
VectorIndex = Annotated[int, Meta(description="Position of the text in the input, from 0.", examples=[0])]


class EmbeddingsRequest(RequestBody):
    """Texts to embed; a single string is a list of one."""

    model: ModelId
    input: Annotated[
        str | Annotated[list[str], Meta(min_length=1, max_length=MAX_TEXTS)],
        Meta(description=f"A text, or up to {MAX_TEXTS} texts.", examples=[["a brass lamp", "a quiet kettle"]]),
    ]
    encoding_format: EncodingFormat = "float"

    def texts(self) -> tuple[str, ...]:
        return (self.input,) if isinstance(self.input, str) else tuple(self.input)


class EmbeddingVector(Struct):
    """The vector of one text."""

    embedding: Vector
    index: VectorIndex


class EmbeddingsResponse(Struct):
    """Vectors in the order of the input."""

    model: ModelId
    data: Annotated[list[EmbeddingVector], Meta(description="Vectors in the order of the input.")]
    usage: Annotated[EmbeddingsTokenUsage, Meta(description="Token usage of the request.")]
