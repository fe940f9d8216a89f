"""Log probabilities in the form of OpenAI's chat."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from inference.engine import TokenLogprob

MIN_LOGPROB = -9999.0  # JSON has no infinity


class TopLogprob(Struct):
    """A token with its log probability."""

    token: Annotated[str, Meta(description="Text of the token.", examples=[" steel"])]
    logprob: Annotated[
        float,
        Meta(
            ge=MIN_LOGPROB,
            le=0,
            description=f"Log probability of the token, at least {MIN_LOGPROB:g}.",
            examples=[-0.31],
        ),
    ]
    bytes: Annotated[
        list[int],
        Meta(
            description="UTF-8 bytes of the token: part of a character has no text.",
            examples=[[32, 115, 116, 101, 101, 108]],
        ),
    ]


class ChatTokenLogprob(TopLogprob):
    """A generated token with the most probable tokens in its place."""

    top_logprobs: Annotated[
        list[TopLogprob], Meta(description="Most probable tokens in this place, the most probable first.")
    ]


class ChoiceLogprobs(Struct):
    """Log probabilities of a choice."""

    content: Annotated[list[ChatTokenLogprob], Meta(description="Log probabilities of the text's tokens in order.")]
    refusal: Annotated[None, Meta(description="Always null.")] = None


def choice_logprobs(tokens: Iterable[TokenLogprob]) -> ChoiceLogprobs:
    return ChoiceLogprobs(
        [ChatTokenLogprob(*_fields(token), [TopLogprob(*_fields(other)) for other in token.top]) for token in tokens]
    )


def _fields(token: TokenLogprob) -> tuple[str, float, list[int]]:
    logprob = MIN_LOGPROB if token.logprob is None else min(max(token.logprob, MIN_LOGPROB), 0.0)
    return token.text, logprob, list(token.data)
