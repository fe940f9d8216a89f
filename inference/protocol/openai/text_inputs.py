"""Inputs of OpenAI's completions and embeddings: one or several texts, each as text or as token ids."""

from typing import Annotated, cast

from msgspec import Meta

from inference.engine import InvalidRequest
from inference.protocol.fields import TokenId

TokenIds = Annotated[list[TokenId], Meta(min_length=1)]
TextInputs = str | Annotated[list[str | TokenId | TokenIds], Meta(min_length=1)]

TextInput = str | tuple[int, ...]


def read_text_inputs(value: TextInputs, *, field: str, max_count: int) -> tuple[TextInput, ...]:
    """Return the texts as they were sent; an array of token ids is one text.

    Raise InvalidRequest for a mixture of kinds and for more than `max_count` texts.
    """
    if isinstance(value, str):
        return (value,)
    kinds = {type(item) for item in value}
    if len(kinds) > 1:
        raise InvalidRequest(
            f"`{field}` must be a string, an array of strings, an array of token ids or an array of such arrays, not a "
            "mixture.",
            field=field,
        )
    if kinds == {int}:
        return (_token_ids(value),)
    if len(value) > max_count:
        raise InvalidRequest(f"`{field}` must have at most {max_count} texts, not {len(value)}.", field=field)
    return tuple(item if isinstance(item, str) else _token_ids(item) for item in value)


def _token_ids(tokens: object) -> tuple[int, ...]:
    return tuple(cast("list[int]", tokens))
