"""Wire structs of POST /tokenize and POST /detokenize, in the form of vLLM's routes of the same names."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.protocol.fields import ModelId, TokenId
from inference.protocol.native.body import RequestBody

# Characters or tokens: all requests to a model share its tokenizer.
MAX_TOKENIZER_INPUT_LENGTH = 2**18


class TokenizeRequest(RequestBody):
    """A text to turn into tokens."""

    model: ModelId
    prompt: Annotated[
        str,
        Meta(
            max_length=MAX_TOKENIZER_INPUT_LENGTH, description="Text to tokenize.", examples=["A lamp for every room"]
        ),
    ]


class TokenizeResponse(Struct):
    """The tokens of a text."""

    tokens: Annotated[list[int], Meta(description="Token ids of the text.", examples=[[37, 1159, 298, 466, 752]])]
    count: Annotated[int, Meta(description="Number of tokens.", examples=[5])]


class DetokenizeRequest(RequestBody):
    """Tokens to turn into a text."""

    model: ModelId
    tokens: Annotated[
        list[TokenId],
        Meta(
            max_length=MAX_TOKENIZER_INPUT_LENGTH,
            description="Token ids of the model's vocabulary.",
            examples=[[37, 1159, 298, 466, 752]],
        ),
    ]


class DetokenizeResponse(Struct):
    """The text of tokens."""

    prompt: Annotated[str, Meta(description="Text of the tokens.", examples=["A lamp for every room"])]
