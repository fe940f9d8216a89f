"""The native wire forms, as the service's own contract has them. Requests refuse fields that they do not know."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import FinishReason, GenerationOutput, GenerationRequest, SamplingParams
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import error_code_and_status, error_from_output
from inference.protocol.logprobs import ChoiceLogprobs, choice_logprobs
from inference.protocol.parameters import (
    ChoiceCount,
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
from inference.protocol.sampling import SamplingParametersWithLogprobs
from inference.protocol.token_usage import TokenUsage

# The contract's, where a client says nothing of them.
DEFAULT_TOP_K = 40
DEFAULT_REPEAT_PENALTY = 1.1


class InferenceRequest(SamplingParametersWithLogprobs, forbid_unknown_fields=True):
    """A generation from raw text."""

    model: str
    prompt: str
    max_tokens: MaxTokens = 100
    temperature: Temperature = 0.7
    top_p: TopP = 0.9
    top_k: Annotated[TopK, Meta(extra_json_schema={"default": DEFAULT_TOP_K})] | UnsetType = UNSET
    repeat_penalty: (
        Annotated[RepeatPenalty, Meta(extra_json_schema={"default": DEFAULT_REPEAT_PENALTY})] | UnsetType
    ) = UNSET
    stop: StopSequences | None = None
    seed: Seed | None = None
    n: ChoiceCount = 1
    timeout: Timeout | None = None
    priority: Priority = 0
    stream: bool | UnsetType = UNSET

    def generation_request(self, request_id: str) -> GenerationRequest:
        """What the engine is asked for."""
        sampling = SamplingParams(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=DEFAULT_TOP_K if self.top_k is UNSET else self.top_k,
            repeat_penalty=DEFAULT_REPEAT_PENALTY if self.repeat_penalty is UNSET else self.repeat_penalty,
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
            default_parameters=tuple(name for name in ("top_k", "repeat_penalty") if getattr(self, name) is UNSET),
        )


class InferenceChoice(Struct):
    """One generated text."""

    text: str
    index: int
    finish_reason: FinishReason
    logprobs: ChoiceLogprobs | UnsetType = UNSET


def build_inference_choices(
    choices: Iterable[GeneratedChoice], *, with_logprobs: bool = False
) -> list[InferenceChoice]:
    """Whole choices as they are answered."""
    return [
        InferenceChoice(
            choice.text,
            choice.index,
            choice.finish_reason,
            choice_logprobs(choice.logprobs) if with_logprobs else UNSET,
        )
        for choice in choices
    ]


class InferenceResponse(Struct):
    """What POST /inference answers. `created` is Unix time in seconds."""

    id: str
    model: str
    choices: list[InferenceChoice]
    usage: TokenUsage
    created: int
    processing_time_ms: int


class TokenEvent(Struct):
    """A streamed token; its text is "" while it is held back. `choice` is there with `n` above 1; `logprobs`, if they
    were asked for, with the text that they are of."""

    token: str
    index: int
    choice: int | UnsetType = UNSET
    logprobs: ChoiceLogprobs | UnsetType = UNSET


class DoneEvent(Struct):
    """The end of a stream that ended well; with `n` above 1, of each choice."""

    done: Literal[True]
    finish_reason: FinishReason
    choice: int | UnsetType = UNSET


class StreamErrorDetail(Struct):
    """Why a stream broke off."""

    code: str
    message: str


class ErrorEvent(Struct):
    """The end of a stream that failed."""

    error: StreamErrorDetail


StreamEvent = TokenEvent | DoneEvent | ErrorEvent


STREAM_EVENTS = (TokenEvent, DoneEvent, ErrorEvent)


def stream_events(output: GenerationOutput, n: int = 1) -> Iterator[StreamEvent]:
    """The events that one output of the engine becomes; an error ends the stream."""
    if output.finish_reason is FinishReason.ERROR:
        error = error_from_output(output)
        yield ErrorEvent(StreamErrorDetail(error_code_and_status(error)[0], error.message))
        return
    choice = output.choice if n > 1 else UNSET
    if output.finish_reason is not FinishReason.CANCELLED:
        told = choice_logprobs(output.logprobs) if output.logprobs else UNSET
        yield TokenEvent(output.text, output.index, choice, told)
    if output.finish_reason is not None:
        yield DoneEvent(True, output.finish_reason, choice)
