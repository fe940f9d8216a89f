"""What OpenAI's completions and embeddings take as texts: one or several, each as text or as its token ids."""

from typing import Annotated, cast

from msgspec import Meta

from inference.engine import InvalidRequest

TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
TokenIds = Annotated[list[TokenId], Meta(min_length=1)]
TextInputs = str | Annotated[list[str | TokenId | TokenIds], Meta(min_length=1)]

TextInput = str | tuple[int, ...]


def read_text_inputs(given: TextInputs, *, field: str, most: int) -> tuple[TextInput, ...]:
    """The texts, each as it was sent. A flat array of ids is one text. InvalidRequest: a mixture, or too many."""
    if isinstance(given, str):
        return (given,)
    kinds = {type(one) for one in given}
    if len(kinds) > 1:
        raise InvalidRequest(
            f"{field} is wrong: send a string, an array of strings, an array of token ids, or an array of such arrays; "
            "not a mixture.",
            field=field,
        )
    if kinds == {int}:
        return (_ids(given),)
    if len(given) > most:
        raise InvalidRequest(f"{field} is wrong: at most {most} texts go into one request.", field=field)
    return tuple(one if isinstance(one, str) else _ids(one) for one in given)


def _ids(tokens: object) -> tuple[int, ...]:
    return tuple(cast("list[int]", tokens))
