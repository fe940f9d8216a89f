"""Results of the engine: generation outputs, token usage, embeddings and scores, as frozen structs."""

from enum import StrEnum

import msgspec


class FinishReason(StrEnum):
    """The reason why a choice ended. Every choice ends with exactly one."""

    STOP = "stop"  # an end token, a stop sequence, or a completed constraint
    LENGTH = "length"  # max_tokens were generated, or the context is full
    TOOL_CALLS = "tool_calls"  # the model called tools and waits for their results
    CANCELLED = "cancelled"  # the client cancelled or disconnected
    ERROR = "error"  # the engine failed while the request ran


class RequestTimings(msgspec.Struct, frozen=True, array_like=True):
    """Times of a request's stages: arrival, first slot, prompt computed, end. Seconds of the monotonic clock.

    A stage that was never reached is None.
    """

    arrived_at: float
    scheduled_at: float | None
    prefilled_at: float | None
    finished_at: float


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts of a request. `completion_tokens` counts sampled tokens of all choices, end tokens included.

    cached_tokens: prompt tokens that the prefix cache held.
    timings: stage times, once a traced request has ended.
    reasoning_tokens: completion tokens before the content, tags included, if the request separates reasoning.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    timings: RequestTimings | None = msgspec.field(default=None, name="stages")
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """A token with its natural log probability, before penalties and temperature, and the best tokens at its position.

    `text` decodes the token alone; `data` holds its bytes, as a part of a character has no text. `top` is best first.
    """

    token: int
    text: str
    data: bytes
    logprob: float | None  # None for the first prompt token, which nothing predicts
    top: tuple["TokenLogprob", ...] = ()


class ToolCallDelta(msgspec.Struct, frozen=True, array_like=True):
    """A piece of tool call number `index`. The first piece has id and name; later ones add to `arguments`."""

    index: int
    id: str | None
    name: str | None
    arguments: str


class GenerationOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of one engine step for one choice: one sampled token, or several if outputs are coalesced.

    choice: index of the choice, below `n`.
    index: position of this output's first token within the choice, from 0. Outputs come in order.
    tokens: number of tokens; 1 as well in the last output of a cancelled or failed choice, which has none.
    text: text that these tokens release; "" while a part of a character or of a stop sequence is held back.
    logprobs: of the tokens whose text this output releases, if requested.
    tool_calls: pieces of tool calls; they are not part of `text`.
    finish_reason: set on the last output of each choice. A cancelled or failed choice ends with an output without text,
        whose `index` is the number of tokens so far; coalesced tokens not yet sent are lost but count in `usage`.
    usage: of the whole request, set on its very last output.
    reasoning: text between `<think>` tags, if the request separates it. It is not part of `text`.
    stop_sequence: the stop sequence that ended the choice, if one did.
    error: a message for people, set with finish_reason `error`.
    error_code: `TIMEOUT` or `EngineDied` where one of them was the cause.
    """

    request_id: str
    index: int
    text: str
    choice: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    tool_calls: tuple[ToolCallDelta, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    error: str | None = None
    error_code: str | None = None
    tokens: int = 1
    stop_sequence: str | None = None
    reasoning: str = ""


class TokenizationResult(msgspec.Struct, frozen=True):
    """Token ids with the text of each alone. context_size: of the model, in tokens."""

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    context_size: int


class EmbeddingResult(msgspec.Struct, frozen=True, kw_only=True):
    """Embeddings in the order of the request's texts: L2-normalized float32, each packed little-endian."""

    request_id: str
    dimensions: int
    vectors: tuple[bytes, ...]
    prompt_tokens: int


class ScoringResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Scores in the order of the request's texts or questions.

    scores: of each text, the probability of each of `labels`; with queries, one number: the probability that the text
        is relevant, or the cosine similarity by an embedding model. Of each question, the probability of each answer;
        they add up to 1.
    labels: those of a classifier.
    prompt_tokens: tokens that the model read. The context of questions counts once.
    cached_tokens: prompt tokens that were read from the prefix cache: by later questions, or since an earlier request.
    cache_write_tokens: tokens of the context that were computed and put into the prefix cache.
    """

    request_id: str
    scores: tuple[tuple[float, ...], ...]
    prompt_tokens: int
    labels: tuple[str, ...] = ()
    cached_tokens: int = 0
    cache_write_tokens: int = 0
