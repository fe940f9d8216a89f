"""The nouns of the engine: what a client asks for and what comes back. Plain frozen structs, ready for the wire."""

from enum import StrEnum

import msgspec


class FinishReason(StrEnum):
    """Why a generation ended. Every request ends in exactly one of these."""

    STOP = "stop"  # the model ended by itself, or a stop sequence was found
    LENGTH = "length"  # max_tokens were generated, or the context is full
    CANCELLED = "cancelled"  # the client asked for it, or left
    ERROR = "error"  # the engine failed while it ran


class Message(msgspec.Struct, frozen=True):
    """One message of a chat. `role` is `system`, `user` or `assistant`; `content` is literal text."""

    role: str
    content: str


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are chosen. The defaults are neutral; each surface applies its own defaults before it gets here.

    max_tokens: at most so many tokens, 1 or more; None is what is left of the context.
    temperature: 0 is greedy; otherwise logits are divided by it (0 to 2).
    top_p: the smallest set of tokens whose probabilities add up to this (0 to 1; 1 is off, 0 keeps the best only).
    top_k: the k best only; 0 is off.
    repeat_penalty: as in CTRL (arXiv 1909.05858), over prompt and output; 1 is off.
    seed: 64-bit; None draws one. The same seed gives the same text whatever else is in the batch.
    stop: generation ends before any of these strings; they are never part of the output.
    """

    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    repeat_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One generation. Exactly one of `prompt` (raw text) and `messages` (through the chat template) is given."""

    request_id: str
    prompt: str | None = None
    messages: tuple[Message, ...] | None = None
    sampling: SamplingParams = SamplingParams()


class Usage(msgspec.Struct, frozen=True):
    """True token counts. `completion_tokens` is the number of sampled tokens, the end token included."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class GenerationOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What one step made of one request: one sampled token, or the end.

    index: the token's place from 0; outputs come in order, one for each sampled token.
    text: text released by this token; "" while it is held back (half a character, a possible stop sequence).
    finish_reason, usage: on the last output only. A cancelled or failed request ends with an output whose
        `index` is the number of tokens so far and whose text is "".
    error: a message for people, with finish_reason `error` only.
    """

    request_id: str
    index: int
    text: str
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    error: str | None = None


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to embed, each within the model's context."""

    request_id: str
    texts: tuple[str, ...]


class EmbeddingResult(msgspec.Struct, frozen=True, kw_only=True):
    """`vectors[i]` is the L2-normalised embedding of `texts[i]`: float32, one row a text, packed little-endian."""

    request_id: str
    dimensions: int
    vectors: tuple[bytes, ...]
    prompt_tokens: int


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is loaded.

    gpu_layers: decoder layers on the GPU; 0 is CPU only. This version runs on the CPU: see LoadReport.
    context_size: prompt plus completion, tokens; None is the lesser of 2048 and the model's own limit.
    batch_size: prompt tokens a step.
    max_sequences: requests that run at once; the cache has so many slots.
    max_queue: requests that may wait beside them.
    """

    gpu_layers: int = 0
    context_size: int | None = None
    batch_size: int = 512
    max_sequences: int = 16
    max_queue: int = 256


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a load came to: options in effect and true costs.

    memory_usage_bytes: weights and cache as allocated. load_time_ms: from the request until it was ready.
    warning: what could not be done as asked, or None.
    """

    model_id: str
    memory_usage_bytes: int
    load_time_ms: int
    gpu_layers: int
    context_size: int
    batch_size: int
    max_sequences: int
    dtype: str
    device: str
    warning: str | None = None


class ModelState(StrEnum):
    """A model's life as the host sees it."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"
    FAILED = "failed"


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One model that the host runs, starts, ends, or failed to run. Models that it never heard of are not listed."""

    model_id: str
    state: ModelState
    pid: int | None = None
    error: str | None = None
    report: LoadReport | None = None


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """Gauges of one model process at one moment."""

    running: int
    waiting: int
    slots: int
