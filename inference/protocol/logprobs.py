"""Log probabilities on the wire, in the form of OpenAI's chat."""

from collections.abc import Iterable

from msgspec import Struct

from inference.engine import TokenLogprob

MIN_LOGPROB = -9999.0  # JSON knows no infinity


class TopLogprob(Struct):
    """A token that could have stood there. `bytes`: since half a character has no text."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(TopLogprob):
    """A token of the text, and the best ones in its place, best first."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(Struct):
    """Of the text's tokens, in their order."""

    content: list[ChatTokenLogprob]
    refusal: None = None


def choice_logprobs(told: Iterable[TokenLogprob]) -> ChoiceLogprobs:
    return ChoiceLogprobs(
        [ChatTokenLogprob(*_parts(one), [TopLogprob(*_parts(other)) for other in one.top]) for one in told]
    )


def _parts(one: TokenLogprob) -> tuple[str, float, list[int]]:
    return one.text, max(one.logprob if one.logprob is not None else MIN_LOGPROB, MIN_LOGPROB), list(one.data)
