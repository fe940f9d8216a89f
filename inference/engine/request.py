"""The nouns of the engine: what a client asks for and what comes back. Plain frozen structs, ready for the wire."""

from enum import StrEnum
from typing import Any

import msgspec


class FinishReason(StrEnum):
    """Why a generation ended. Every request ends in exactly one of these."""

    STOP = "stop"  # the model ended by itself, or a stop sequence was found
    LENGTH = "length"  # max_tokens were generated, or the context is full
    TOOL_CALLS = "tool_calls"  # the model called tools, and waits for what they answer
    CANCELLED = "cancelled"  # the client asked for it, or left
    ERROR = "error"  # the engine failed while it ran


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a function that the model asks for. `arguments` is JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a chat. `role` is `system`, `user`, `assistant` or `tool`; `content` is literal text.

    tool_calls: what an assistant asked for. tool_call_id: of a `tool` message, the call that it answers.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that the model may call. `parameters` is a JSON schema of its arguments, None for no arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class OutputForm(StrEnum):
    """What the text of a generation has to be."""

    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    GRAMMAR = "grammar"  # Lark, as llguidance reads it


class OutputConstraint(msgspec.Struct, frozen=True):
    """Only text of this form can be generated. `definition`: the schema as JSON text, the regex, the grammar; "" for
    `json_object`."""

    form: OutputForm
    definition: str = ""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How tokens are chosen. The defaults are neutral; each surface applies its own defaults before it gets here.

    max_tokens: at most so many tokens, 1 or more; None is what is left of the context.
    min_tokens: no end token and no stop sequence before so many tokens.
    temperature: 0 is greedy; otherwise logits are divided by it (0 to 2).
    top_p: the smallest set of tokens whose probabilities add up to this (0 to 1; 1 is off, 0 keeps the best only).
    top_k: the k best only; 0 is off.
    min_p: only tokens at least this share as probable as the best (0 to 1; 0 is off).
    repeat_penalty: as in CTRL (arXiv 1909.05858), over prompt and output; 1 is off.
    presence_penalty, frequency_penalty: as in OpenAI's API, over the output alone (-2 to 2; 0 is off).
    logit_bias: token id to what is added to its logit (-100 to 100).
    seed: 64-bit; None draws one. The same seed gives the same text whatever else is in the batch.
    stop: generation ends before any of these strings; they are never part of the output.
    ignore_eos: the model's end token does not end the generation.
    logprobs: log probabilities of each chosen token and of so many best ones beside it (0 to 20); None is none.
    constraint: the form that the text has to have.
    """

    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = {}
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    constraint: OutputConstraint | None = None


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One generation. Exactly one of `prompt` (raw text), `prompt_ids` and `messages` (through the chat template) is
    given.

    n: so many generations of the same prompt; each output says which `choice` it belongs to.
    echo: the first output of each choice begins with the prompt's text (and its log probabilities, if asked for).
    tools, tool_choice: what an assistant may call: `none`, `auto`, `required`, or the name of the one to call.
    user: who asks. Users take turns, and one never gets another's cached prefix.
    batch: background work, which takes what interactive requests leave.
    priority: higher ones first among those of a class (-10 to 10).
    timeout: seconds from here to the last token; past it the generation ends with error code TIMEOUT.
    assumed: parameters of `sampling` that nobody asked for: another server that cannot follow them goes without.
    gathered: nobody waits for single tokens, so that an output may hold many of them.
    traceparent: the span that this is a part of (W3C Trace Context), if it is traced.
    """

    request_id: str
    prompt: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    messages: tuple[Message, ...] | None = None
    sampling: SamplingParams = SamplingParams()
    n: int = 1
    echo: bool = False
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    user: str = ""
    batch: bool = False
    priority: int = 0
    timeout: float | None = None
    assumed: tuple[str, ...] = ()
    gathered: bool = False
    traceparent: str | None = None


class Stages(msgspec.Struct, frozen=True, array_like=True):
    """When a generation came to the engine, got its first slot, had its prompt computed, and ended: seconds of the
    machine's monotonic clock. None where it never got so far."""

    asked_at: float
    started_at: float | None
    prefilled_at: float | None
    ended_at: float


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """True token counts. `completion_tokens` is the number of sampled tokens, end tokens included, over all choices.

    cached_tokens: how many of the prompt's were not computed again. stages: of a traced request that has ended.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    stages: Stages | None = None

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """A token with its natural log probability (before temperature and cuts) and the best ones at its place, best
    first. `text` is the token's own; `data` its bytes, since half a character has no text."""

    token: int
    text: str
    data: bytes
    logprob: float | None  # None for the first token of a prompt, which nothing predicts
    top: tuple["TokenLogprob", ...] = ()


class ToolCallDelta(msgspec.Struct, frozen=True, array_like=True):
    """A piece of the call number `index`: its id and name come first, its arguments in pieces."""

    index: int
    id: str | None
    name: str | None
    arguments: str


class GenerationOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What one step made of one choice of one request: one sampled token, or the end; many tokens where the request
    has them gathered.

    choice: which of `n`. index: the place in it, from 0, of this output's first token; outputs come in order.
    tokens: how many it has, unless it ends a choice that was cancelled or failed.
    text: text released by its tokens; "" while it is held back (half a character, a possible stop sequence).
    logprobs: of the tokens whose text this output releases, if they were asked for.
    tool_calls: pieces of calls that its tokens completed; their text is no part of `text`.
    finish_reason: on the last output of each choice. usage: the whole request's, on its very last output.
        A cancelled or failed choice ends with an output whose `index` is the number of tokens so far and whose text
        is ""; tokens that were gathered until then are lost, but for the usage.
    error: a message for people, with finish_reason `error` only. error_code: `TIMEOUT` or `EngineDied` where that was
        the reason.
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


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to embed, each within the model's context: as text, or as its tokens, which are taken as they stand.

    user, batch: users take turns, and work of batches comes after all other.
    """

    request_id: str
    texts: tuple[str | tuple[int, ...], ...]
    user: str = ""
    batch: bool = False


class EmbeddingResult(msgspec.Struct, frozen=True, kw_only=True):
    """`vectors[i]` is the L2-normalised embedding of `texts[i]`: float32, one row a text, packed little-endian."""

    request_id: str
    dimensions: int
    vectors: tuple[bytes, ...]
    prompt_tokens: int


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is loaded.

    gpu_layers: decoder layers on the GPU; 0 is CPU only. See LoadReport for what it came to.
    context_size: prompt plus completion, tokens; None is the lesser of 2048 and the model's own limit.
    batch_size: prompt tokens a step.
    max_sequences: requests that run at once; the cache has so many slots.
    max_queue, max_queue_tokens: so many requests, with so many prompt tokens in all, may wait beside them.
    dtype: what weights are held in: `float32`, `bfloat16`, or `auto`: on the CPU the best that is exact, on a GPU
        bfloat16.
    quantization: `none`, or `int8`, on the CPU: a quarter of the memory, a multiple of the speed, nearly the same text.
    """

    gpu_layers: int = 0
    context_size: int | None = None
    batch_size: int = 512
    max_sequences: int = 16
    max_queue: int = 256
    max_queue_tokens: int = 262_144
    dtype: str = "auto"
    quantization: str = "none"


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a load came to: options in effect and true costs.

    dtype: that of the layers on the GPU where there are some.
    memory_usage_bytes: weights and cache as allocated. load_time_ms: from the request until it was ready.
    kernels: what computes: `compiled` for this machine, `torch`, or `transformers` for its modelling code.
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
    quantization: str = "none"
    kernels: str = "torch"
    warning: str | None = None


class ModelState(StrEnum):
    """A model's life as the host sees it."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"
    FAILED = "failed"


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One model that the host runs, starts, ends, or failed to run. Models that it never heard of are not listed.

    options: those that were asked for; `report` has those in effect. revision: see `HostClient.load`.
    progress: of a load, 0 to 1. memory_bytes: what counts against the budget; an estimate until it is loaded.
    resident_bytes: of its process, as the system counts it.
    busy: it works for somebody. used_at: when it last did, seconds of the machine's monotonic clock.
    resting: the host ended it to make room or because nobody used it; a request brings it back.
    retry_after: seconds for which a model that failed is not tried again.
    """

    model_id: str
    state: ModelState
    pid: int | None = None
    error: str | None = None
    report: LoadReport | None = None
    options: LoadOptions = LoadOptions()
    revision: int = 0
    progress: float | None = None
    memory_bytes: int = 0
    resident_bytes: int | None = None
    busy: bool = False
    used_at: float | None = None
    resting: bool = False
    retry_after: float | None = None


QUEUE_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """One model process at one moment; the last six count from its start.

    running, waiting: choices of requests with a slot, and without one. slots: how many can run at once.
    cache_tokens: places of the cache that running requests fill, of `cache_capacity`.
    prefix_queried, prefix_hit: prompt tokens that came, and those that were found in the cache.
    preemptions: how often one that ran had to make room. generated_tokens: sampled.
    queue_counts: requests by how long they waited for their first slot: up to each of QUEUE_SECONDS, and longer.
    queue_seconds: how long all of them waited.
    """

    running: int
    waiting: int
    slots: int
    cache_tokens: int = 0
    cache_capacity: int = 0
    prefix_queried: int = 0
    prefix_hit: int = 0
    preemptions: int = 0
    generated_tokens: int = 0
    queue_counts: tuple[int, ...] = ()
    queue_seconds: float = 0.0
