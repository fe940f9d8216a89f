"""Texts as tokens and back, in the form of vLLM's routes of the same names: they say which model is meant."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.protocol.native.body import RequestBody
from inference.protocol.openai.text_inputs import TokenId

MAX_TOKENIZER_INPUT_LENGTH = 2**18  # characters, or tokens: a tokenizer is shared by all who ask the model


class TokenizeRequest(RequestBody):
    """A text to turn into tokens."""

    model: str
    prompt: Annotated[str, Meta(max_length=MAX_TOKENIZER_INPUT_LENGTH)]


class TokenizeResponse(Struct):
    """A text's tokens, and how many they are."""

    tokens: list[int]
    count: int


class DetokenizeRequest(RequestBody):
    """Tokens to turn into a text."""

    model: str
    tokens: Annotated[list[TokenId], Meta(max_length=MAX_TOKENIZER_INPUT_LENGTH)]


class DetokenizeResponse(Struct):
    """The text."""

    prompt: str
