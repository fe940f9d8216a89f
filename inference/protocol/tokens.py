"""Texts as tokens and back, in the form of vLLM's routes of the same names: they say which model is meant."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.protocol.native import Body
from inference.protocol.openai_inputs import Token

LONGEST = 2**18  # characters, or tokens: a tokenizer is shared by all who ask the model


class TokenizeBody(Body):
    """A text to turn into tokens."""

    model: str
    prompt: Annotated[str, Meta(max_length=LONGEST)]


class TokenizeAnswer(Struct):
    """A text's tokens, and how many they are."""

    tokens: list[int]
    count: int


class DetokenizeBody(Body):
    """Tokens to turn into a text."""

    model: str
    tokens: Annotated[list[Token], Meta(max_length=LONGEST)]


class DetokenizeAnswer(Struct):
    """The text."""

    prompt: str
