"""The native wire forms, as the service's own contract has them. Requests refuse fields that they do not know."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import FinishReason, GenerationOutput, GenerationRequest, LoadOptions, SamplingParams
from inference.engine import Usage as EngineUsage
from inference.protocol.choices import Choice
from inference.protocol.errors import Code, code_and_status, error_of
from inference.protocol.logprobs import Logprobs, logprobs
from inference.protocol.parameters import (
    Choices,
    MaxTokens,
    Priority,
    RepeatPenalty,
    Seed,
    StopSequences,
    Temperature,
    Timeout,
    TopK,
    TopP,
)
from inference.protocol.sampling import FurtherSampling

# The contract's, where a client says nothing of them.
TOP_K = 40
REPEAT_PENALTY = 1.1


class Body(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all request bodies."""


class InferenceBody(FurtherSampling, forbid_unknown_fields=True):
    """A generation from raw text."""

    model: str
    prompt: str
    max_tokens: MaxTokens = 100
    temperature: Temperature = 0.7
    top_p: TopP = 0.9
    top_k: Annotated[TopK, Meta(extra_json_schema={"default": TOP_K})] | UnsetType = UNSET
    repeat_penalty: Annotated[RepeatPenalty, Meta(extra_json_schema={"default": REPEAT_PENALTY})] | UnsetType = UNSET
    stop: StopSequences | None = None
    seed: Seed | None = None
    n: Choices = 1
    timeout: Timeout | None = None
    priority: Priority = 0
    stream: bool | UnsetType = UNSET

    def generation_request(self, request_id: str) -> GenerationRequest:
        """What the engine is asked for."""
        sampling = SamplingParams(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=TOP_K if self.top_k is UNSET else self.top_k,
            repeat_penalty=REPEAT_PENALTY if self.repeat_penalty is UNSET else self.repeat_penalty,
            seed=self.seed,
            stop=tuple(self.stop or ()),
            **self.further(),
        )
        return GenerationRequest(
            request_id=request_id,
            prompt=self.prompt,
            sampling=sampling,
            n=self.n,
            timeout=self.timeout,
            priority=self.priority,
            assumed=tuple(name for name in ("top_k", "repeat_penalty") if getattr(self, name) is UNSET),
        )


class PromptTokensDetails(Struct):
    """`cached_tokens`: those that were not computed again."""

    cached_tokens: int


class Usage(Struct):
    """True token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails

    @classmethod
    def of(cls, usage: EngineUsage) -> "Usage":
        details = PromptTokensDetails(usage.cached_tokens)
        return cls(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens, details)


class InferenceChoice(Struct):
    """One generated text."""

    text: str
    index: int
    finish_reason: FinishReason
    logprobs: Logprobs | UnsetType = UNSET


def inference_choices(choices: Iterable[Choice], *, with_logprobs: bool = False) -> list[InferenceChoice]:
    """Whole choices as they are answered."""
    return [
        InferenceChoice(
            choice.text, choice.index, choice.finish_reason, logprobs(choice.logprobs) if with_logprobs else UNSET
        )
        for choice in choices
    ]


class InferenceResult(Struct):
    """What POST /inference answers. `created` is Unix time in seconds."""

    id: str
    model: str
    choices: list[InferenceChoice]
    usage: Usage
    created: int
    processing_time_ms: int


class TokenEvent(Struct):
    """A streamed token; its text is "" while it is held back. `choice` is there with `n` above 1; `logprobs`, if they
    were asked for, with the text that they are of."""

    token: str
    index: int
    choice: int | UnsetType = UNSET
    logprobs: Logprobs | UnsetType = UNSET


class DoneEvent(Struct):
    """The end of a stream that ended well; with `n` above 1, of each choice."""

    done: Literal[True]
    finish_reason: FinishReason
    choice: int | UnsetType = UNSET


class StreamError(Struct):
    """Why a stream broke off."""

    code: str
    message: str


class ErrorEvent(Struct):
    """The end of a stream that failed."""

    error: StreamError


StreamEvent = TokenEvent | DoneEvent | ErrorEvent


STREAM_EVENTS = (TokenEvent, DoneEvent, ErrorEvent)


def stream_events(output: GenerationOutput, n: int = 1) -> Iterator[StreamEvent]:
    """The events that one output of the engine becomes; an error ends the stream."""
    if output.finish_reason is FinishReason.ERROR:
        error = error_of(output)
        yield ErrorEvent(StreamError(code_and_status(error)[0], error.message))
        return
    choice = output.choice if n > 1 else UNSET
    if output.finish_reason is not FinishReason.CANCELLED:
        told = logprobs(output.logprobs) if output.logprobs else UNSET
        yield TokenEvent(output.text, output.index, choice, told)
    if output.finish_reason is not None:
        yield DoneEvent(True, output.finish_reason, choice)


class Model(Struct, kw_only=True):
    """A model. `size_bytes`: its weights on disk; `context_size`: tokens. Of a loaded one, what is in effect; else what
    its files say, and null for what only a loaded one has.

    `progress`: of a load, 0 to 1. `memory_usage_bytes`: weights and cache; `resident_bytes`: of its process.
    """

    id: str
    name: str
    type: str
    size_bytes: int
    loaded: bool
    context_size: int
    capabilities: list[str]
    state: str
    error: str | None
    parameters: int | None = None
    quantization: str | None = None
    dtype: str | None = None
    device: str | None = None
    progress: float | None = None
    memory_usage_bytes: int | None = None
    resident_bytes: int | None = None
    load_time_ms: int | None = None
    gpu_layers: int | None = None
    batch_size: int | None = None
    max_sequences: int | None = None
    warning: str | None = None


class ModelList(Struct):
    """All models."""

    models: list[Model]


class LoadBody(Body):
    """How to load a model; an absent `context_size` is the lesser of 2048 and the model's own limit."""

    gpu_layers: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    context_size: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType = UNSET
    batch_size: Annotated[int, Meta(ge=1, le=32768, description="Prompt tokens a step.")] = 512
    max_sequences: Annotated[int, Meta(ge=1, le=256, description="Requests that run at once.")] = 16
    quantization: Annotated[
        Literal["none", "int8"], Meta(description="int8: a quarter of the memory, faster, nearly the same text.")
    ] = "none"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16"],
        Meta(description="What weights are held in; auto is exact on the CPU, bfloat16 on a GPU."),
    ] = "auto"

    def options(self) -> LoadOptions:
        """What the model host is asked for."""
        return LoadOptions(
            gpu_layers=self.gpu_layers,
            context_size=None if self.context_size is UNSET else self.context_size,
            batch_size=self.batch_size,
            max_sequences=self.max_sequences,
            quantization=self.quantization,
            dtype=self.dtype,
        )


class LoadAnswer(Struct, kw_only=True, omit_defaults=True):
    """A loaded model, what it cost, and the options in effect."""

    status: str
    model_id: str
    memory_usage_bytes: int
    load_time_ms: int
    gpu_layers: int
    context_size: int
    batch_size: int
    max_sequences: int
    quantization: str
    dtype: str
    device: str
    warning: str | None = None


class UnloadBody(Body):
    """How to unload: with `force`, running requests are cancelled instead of finished."""

    force: bool = False


class UnloadAnswer(Struct):
    """An unloaded model."""

    status: str
    model_id: str


class Health(Struct):
    """`status` is `healthy`, or `degraded` while a wanted model is not loaded."""

    status: str
    version: str
    uptime_seconds: int
    models_loaded: int


class EmbeddingsBody(Body):
    """Texts to embed; a single string is a list of one."""

    model: str
    input: str | Annotated[list[str], Meta(min_length=1, max_length=256)]
    encoding_format: Literal["float", "base64"] = "float"

    def texts(self) -> tuple[str, ...]:
        return (self.input,) if isinstance(self.input, str) else tuple(self.input)


class Embedding(Struct):
    """One vector: numbers, or base64 of little-endian float32."""

    embedding: list[float] | str
    index: int


class EmbeddingsUsage(Struct):
    """True token counts."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(Struct):
    """Vectors in the order of the input."""

    model: str
    data: list[Embedding]
    usage: EmbeddingsUsage


class LoginBody(Body):
    """`username` is the e-mail address."""

    username: str
    password: str


class LoginUser(Struct):
    """Who signed in."""

    id: int
    username: str
    role: str


class LoginAnswer(Struct):
    """A session. `token` and `access_token` are the same; `expires_at` is ISO 8601."""

    token: str
    access_token: str
    token_type: str
    expires_in: int
    expires_at: str
    refresh_token: str
    user: LoginUser


class ErrorDetail(Struct, omit_defaults=True):
    """What went wrong."""

    code: Code
    message: str
    details: dict[str, Any] | None = None
    retry_after: int | None = None


class Error(Struct):
    """Every error of a native route."""

    error: ErrorDetail
    request_id: str
    timestamp: str
