"""Wire structs of POST /v1/embeddings."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.protocol.fields import ModelId
from inference.protocol.native.embeddings import MAX_TEXTS, EncodingFormat, Vector, VectorIndex
from inference.protocol.openai.compatible_fields import IgnoredText
from inference.protocol.openai.text_inputs import TextInput, TextInputs, read_text_inputs
from inference.protocol.token_usage import EmbeddingsTokenUsage

MAX_INPUTS = MAX_TEXTS

Dimensions = Annotated[
    int,
    Meta(
        ge=1,
        le=2**31 - 1,
        description="Number of dimensions: the vectors are cut to their first numbers and scaled to the length 1. By "
        "default all.",
        examples=[64],
    ),
]


class OpenAIEmbeddingsRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """Texts or token ids to embed."""

    model: ModelId
    input: Annotated[
        TextInputs,
        Meta(
            description=f"A text, an array of up to {MAX_INPUTS} texts, an array of token ids, or up to {MAX_INPUTS} "
            "such arrays.",
            examples=[["a brass lamp", "a quiet kettle"]],
        ),
    ]
    dimensions: Dimensions | None = None
    encoding_format: Annotated[
        EncodingFormat | None,
        Meta(description="Form of the vectors: numbers (the default), or base64 of little-endian 32-bit floats."),
    ] = None

    user: IgnoredText | None = None

    @property
    def ignored_fields(self) -> tuple[str, ...]:
        """Return the names of the fields without effect that the request has."""
        return () if self.user is None else ("user",)

    def texts(self) -> tuple[TextInput, ...]:
        """Return the inputs. Raise InvalidRequest for a mixture of texts and tokens, and for too many."""
        return read_text_inputs(self.input, field="input", max_count=MAX_INPUTS)


class OpenAIEmbedding(Struct):
    """The vector of one input."""

    object: Annotated[Literal["embedding"], Meta(description="Kind of the object.")]
    index: VectorIndex
    embedding: Vector


class OpenAIEmbeddingsResponse(Struct):
    """Vectors in the order of the input."""

    object: Annotated[Literal["list"], Meta(description="Kind of the object.")]
    data: Annotated[list[OpenAIEmbedding], Meta(description="Vectors in the order of the input.")]
    model: ModelId
    usage: Annotated[EmbeddingsTokenUsage, Meta(description="Token usage of the request.")]
