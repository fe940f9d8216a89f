"""Wire structs of POST /score, in vLLM's form."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.fields import CreatedUnixTime, ModelId
from inference.protocol.native.body import RequestBody
from inference.protocol.scoring.rerank import read_truncation
from inference.protocol.token_usage import EmbeddingsTokenUsage

MAX_PAIRS = 1000

Texts = str | Annotated[list[str], Meta(min_length=1, max_length=MAX_PAIRS)]


class ScoreRequest(RequestBody):
    """Pairs of texts to score."""

    model: ModelId
    text_1: Annotated[
        Texts,
        Meta(description="A text for all pairs, or one for each pair, such as a query.", examples=["a warm lamp"]),
    ]
    text_2: Annotated[
        Texts,
        Meta(
            description=f"A text, or up to {MAX_PAIRS}, to compare with `text_1`.",
            examples=[["A brass lamp with a linen shade.", "A quiet kettle."]],
        ),
    ]
    truncate_prompt_tokens: (
        Annotated[
            int,
            Meta(
                ge=-1,
                le=2**31 - 1,
                description="Tokens to which a pair is cut, at its end; -1 is the model's context. By default, a pair "
                "that is too long is an error.",
                examples=[512],
            ),
        ]
        | None
    ) = None

    def pairs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the first texts, one or as many as the second ones, and the second texts.

        Raise InvalidRequest for different numbers of them.
        """
        first, second = (((one,) if isinstance(one, str) else tuple(one)) for one in (self.text_1, self.text_2))
        if len(first) not in (1, len(second)):
            raise InvalidRequest(
                f"`text_1` must have one text or as many as `text_2`, {len(second)}, not {len(first)}.", field="text_1"
            )
        return first, second

    def max_tokens(self) -> int | None:
        """Return the number of tokens to which a pair is cut. Raise InvalidRequest for 0."""
        return read_truncation(self.truncate_prompt_tokens)


class PairScore(Struct):
    """The score of one pair."""

    index: Annotated[int, Meta(description="Position of the pair in the request, from 0.", examples=[0])]
    object: Annotated[str, Meta(description="Always `score`.", examples=["score"])]
    score: Annotated[
        float,
        Meta(
            description="Probability from 0 to 1, by a cross-encoder; cosine similarity from -1 to 1, by an embedding "
            "model.",
            examples=[0.91],
        ),
    ]


class ScoreResponse(Struct):
    """Scores in the order of the pairs."""

    id: Annotated[str, Meta(description="Id of the response.", examples=["score-5b8d1f0c9a7e4d2b8c3f6a10"])]
    object: Annotated[str, Meta(description="Always `list`.", examples=["list"])]
    created: CreatedUnixTime
    model: ModelId
    data: Annotated[list[PairScore], Meta(description="Scores in the order of the pairs.")]
    usage: Annotated[EmbeddingsTokenUsage, Meta(description="Token usage of the request.")]
