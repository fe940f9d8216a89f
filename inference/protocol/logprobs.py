"""Log probabilities on the wire, in the form of OpenAI's chat."""

from collections.abc import Iterable

from msgspec import Struct

from inference.engine import TokenLogprob

LEAST = -9999.0  # JSON knows no infinity


class TopLogprob(Struct):
    """A token that could have stood there. `bytes`: since half a character has no text."""

    token: str
    logprob: float
    bytes: list[int]


class ContentLogprob(TopLogprob):
    """A token of the text, and the best ones in its place, best first."""

    top_logprobs: list[TopLogprob]


class Logprobs(Struct):
    """Of the text's tokens, in their order."""

    content: list[ContentLogprob]
    refusal: None = None


def logprobs(told: Iterable[TokenLogprob]) -> Logprobs:
    return Logprobs([ContentLogprob(*_parts(one), [TopLogprob(*_parts(other)) for other in one.top]) for one in told])


def _parts(one: TokenLogprob) -> tuple[str, float, list[int]]:
    return one.text, max(one.logprob if one.logprob is not None else LEAST, LEAST), list(one.data)
