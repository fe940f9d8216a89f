"""Wire structs of POST /inference and POST /inference/stream, which refuse unknown fields."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import FinishReason, GenerationOutput, GenerationRequest, SamplingParams
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import error_code_and_status, error_from_output
from inference.protocol.fields import ChoiceIndex, CreatedUnixTime, GeneratedText, ModelId, ProcessingTime, Prompt
from inference.protocol.logprobs import ChoiceLogprobs, choice_logprobs
from inference.protocol.native.errors import ErrorText
from inference.protocol.parameters import (
    ChoiceCount,
    MaxTokens,
    Priority,
    RepeatPenalty,
    Seed,
    StopSequences,
    StreamFlag,
    Temperature,
    Timeout,
    TopK,
    TopP,
)
from inference.protocol.sampling import SamplingParametersWithLogprobs
from inference.protocol.token_usage import TokenUsage

# Defaults of the API where a client does not set them.
DEFAULT_TOP_K = 40
DEFAULT_REPEAT_PENALTY = 1.1

FinishReasonField = Annotated[
    FinishReason,
    Meta(
        description="Why the text ended: at a `stop` sequence or end token, at the maximum `length`, with "
        "`tool_calls`, `cancelled`, or with an `error`."
    ),
]
Logprobs = Annotated[ChoiceLogprobs, Meta(description="Log probabilities of the text's tokens, if requested.")]
EventChoice = Annotated[int, Meta(description="Position of the choice; only with `n` above 1.", examples=[0])]


class InferenceRequest(SamplingParametersWithLogprobs, forbid_unknown_fields=True):
    """A generation from raw text."""

    model: ModelId
    prompt: Prompt
    max_tokens: Annotated[MaxTokens, Meta(description="Maximum number of generated tokens.")] = 100
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
    stream: StreamFlag | UnsetType = UNSET

    def generation_request(self, request_id: str) -> GenerationRequest:
        """Return the engine's request."""
        sampling = SamplingParams(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=DEFAULT_TOP_K if self.top_k is UNSET else self.top_k,
            repeat_penalty=DEFAULT_REPEAT_PENALTY if self.repeat_penalty is UNSET else self.repeat_penalty,
            seed=self.seed,
            stop=tuple(self.stop or ()),
            **self.extra_sampling(),
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

    text: GeneratedText
    index: ChoiceIndex
    finish_reason: FinishReasonField
    logprobs: Logprobs | UnsetType = UNSET


def build_inference_choices(
    choices: Iterable[GeneratedChoice], *, with_logprobs: bool = False
) -> list[InferenceChoice]:
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
    """The response of POST /inference."""

    id: Annotated[str, Meta(description="Id of the generation.", examples=["inf_2f5089174548597c71e02802"])]
    model: ModelId
    choices: Annotated[list[InferenceChoice], Meta(description="Generated texts.")]
    usage: Annotated[TokenUsage, Meta(description="Token usage of the request.")]
    created: CreatedUnixTime
    processing_time_ms: ProcessingTime


class TokenEvent(Struct):
    """A streamed token. `logprobs` come with the text that they belong to."""

    token: Annotated[
        str,
        Meta(
            description="Text of the token; empty while it is held back, as part of a possible stop sequence or of an "
            "unfinished character.",
            examples=[" steel"],
        ),
    ]
    index: Annotated[int, Meta(description="Position of the token in its choice, from 0.", examples=[1])]
    choice: EventChoice | UnsetType = UNSET
    logprobs: Logprobs | UnsetType = UNSET


class DoneEvent(Struct):
    """The end of a choice."""

    done: Annotated[Literal[True], Meta(description="Always true.")]
    finish_reason: FinishReasonField
    choice: EventChoice | UnsetType = UNSET


class StreamErrorDetail(Struct):
    """The error that ended a stream."""

    code: Annotated[str, Meta(description="Name of the error for programs.", examples=["TIMEOUT"])]
    message: ErrorText


class ErrorEvent(Struct):
    """The last event of a stream that failed."""

    error: Annotated[StreamErrorDetail, Meta(description="Error that ended the stream.")]


StreamEvent = TokenEvent | DoneEvent | ErrorEvent
STREAM_EVENTS = (TokenEvent, DoneEvent, ErrorEvent)


def stream_events(output: GenerationOutput, n: int = 1) -> Iterator[StreamEvent]:
    """Yield the events of one output of the engine. An error ends the stream. n: number of choices."""
    if output.finish_reason is FinishReason.ERROR:
        error = error_from_output(output)
        yield ErrorEvent(StreamErrorDetail(error_code_and_status(error)[0], error.message))
        return
    choice = output.choice if n > 1 else UNSET
    if output.finish_reason is not FinishReason.CANCELLED:
        logprobs = choice_logprobs(output.logprobs) if output.logprobs else UNSET
        yield TokenEvent(output.text, output.index, choice, logprobs)
    if output.finish_reason is not None:
        yield DoneEvent(True, output.finish_reason, choice)
