"""Wire structs of POST /v1/completions: one or several raw prompts, whole and streamed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import SAMPLING_PARAMETERS, FinishReason, GenerationOutput, GenerationRequest, InvalidRequest
from inference.engine import Usage as EngineUsage
from inference.protocol import sse
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import openai_stream_error
from inference.protocol.fields import (
    SYSTEM_FINGERPRINT,
    ChoiceIndex,
    CreatedUnixTime,
    GeneratedText,
    ModelId,
    SystemFingerprint,
)
from inference.protocol.native.inference import FinishReasonField
from inference.protocol.openai.completion_logprobs import CompletionLogprobs, CompletionLogprobsBuilder
from inference.protocol.openai.parameters import OpenAISamplingParameters, supported_fields
from inference.protocol.openai.text_inputs import TextInputs, read_text_inputs
from inference.protocol.parsing import UnsupportedFields, parse_struct
from inference.protocol.token_usage import TokenUsage

MAX_PROMPTS = 64
DEFAULT_MAX_TOKENS = 16

_UNSUPPORTED: UnsupportedFields = {"suffix": ("",)}

CompletionId = Annotated[str, Meta(description="Id of the completion.", examples=["cmpl-55ccc0c717ef785f4efab42d"])]
CompletionTopLogprobs = Annotated[
    int,
    Meta(
        ge=0,
        le=5,
        description="Number of most probable tokens to return with each token's log probability. By default no log "
        "probabilities are returned.",
        examples=[2],
    ),
]
Echo = Annotated[bool, Meta(description="Whether the text begins with the prompt.", examples=[True])]
LogprobsField = Annotated[
    CompletionLogprobs | None, Meta(description="Log probabilities of the tokens, or null if not requested.")
]


class CompletionRequest(OpenAISamplingParameters, kw_only=True, forbid_unknown_fields=True):
    """One or several prompts to continue."""

    model: ModelId
    prompt: Annotated[
        TextInputs,
        Meta(
            description=f"A text, an array of up to {MAX_PROMPTS} texts, an array of token ids, or up to {MAX_PROMPTS} "
            "such arrays.",
            examples=["The kettle is made of"],
        ),
    ]
    max_tokens: (
        Annotated[
            int,
            replace(SAMPLING_PARAMETERS["max_tokens"].bounds, minimum=0).meta(
                description="Maximum number of generated tokens of each choice. By default "
                f"{DEFAULT_MAX_TOKENS}. 0 returns the prompt alone and needs `echo`.",
                examples=[12],
            ),
        ]
        | None
    ) = None
    echo: Echo | None = None
    logprobs: CompletionTopLogprobs | None = None

    def generation_requests(self, request_id: str) -> tuple[GenerationRequest, ...]:
        """Return the engine's requests, one for each prompt."""
        max_tokens = DEFAULT_MAX_TOKENS if self.max_tokens is None else max(1, self.max_tokens)
        sampling = self.sampling(max_tokens=max_tokens, logprobs=self.logprobs)
        return tuple(
            GenerationRequest(
                request_id=f"{request_id}-{number}",
                prompt=text if isinstance(text, str) else None,
                prompt_ids=None if isinstance(text, str) else text,
                sampling=sampling,
                n=self.n or 1,
                echo=self.echo is True,
                prompt_only=self.max_tokens == 0,
                timeout=self.timeout,
                priority=self.priority or 0,
            )
            for number, text in enumerate(read_text_inputs(self.prompt, field="prompt", max_count=MAX_PROMPTS))
        )


def parse_completion_request(value: Mapping[str, Any]) -> CompletionRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    body = parse_struct(supported_fields(value, _UNSUPPORTED), CompletionRequest)
    body.check_stream_options()
    if body.max_tokens == 0 and not body.echo:
        raise InvalidRequest("`max_tokens` 0 needs `echo`: set it to true, or generate a token.", field="max_tokens")
    return body


class CompletionChoice(Struct):
    """One generated text."""

    text: GeneratedText
    index: ChoiceIndex
    logprobs: LogprobsField
    finish_reason: FinishReasonField


class TextCompletion(Struct):
    """The whole response."""

    id: CompletionId
    object: Annotated[Literal["text_completion"], Meta(description="Kind of the object.")]
    created: CreatedUnixTime
    model: ModelId
    choices: Annotated[
        list[CompletionChoice],
        Meta(description="Generated texts: those of the first prompt, then those of the second."),
    ]
    usage: Annotated[TokenUsage, Meta(description="Token usage of all prompts together.")]
    system_fingerprint: SystemFingerprint = SYSTEM_FINGERPRINT


def build_text_completion(
    *,
    completion_id: str,
    created: int,
    model: str,
    choices: Iterable[GeneratedChoice],
    usage: EngineUsage,
    with_logprobs: bool = False,
) -> TextCompletion:
    texts = [
        CompletionChoice(
            choice.text,
            choice.index,
            CompletionLogprobsBuilder().add(choice.text, choice.logprobs) if with_logprobs else None,
            choice.finish_reason,
        )
        for choice in choices
    ]
    return TextCompletion(completion_id, "text_completion", created, model, texts, TokenUsage.from_engine(usage))


class CompletionChunkChoice(Struct):
    """A piece of one text."""

    text: GeneratedText
    index: ChoiceIndex
    logprobs: LogprobsField
    finish_reason: Annotated[
        FinishReasonField | None, Meta(description="Why the text ended, or null before its last chunk.")
    ]


class CompletionChunk(Struct):
    """One event of a stream."""

    id: CompletionId
    object: Annotated[Literal["text_completion"], Meta(description="Kind of the object.")]
    created: CreatedUnixTime
    model: ModelId
    choices: Annotated[
        list[CompletionChunkChoice], Meta(description="Pieces of texts; empty in the chunk with the usage.")
    ]
    usage: Annotated[
        TokenUsage | UnsetType | None,
        Meta(description="Token usage, only if requested with `include_usage`: null before the last chunk."),
    ] = UNSET


class CompletionStreamEncoder:
    """Encodes the events of one stream."""

    def __init__(
        self, *, completion_id: str, created: int, model: str, include_usage: bool, with_logprobs: bool = False
    ) -> None:
        self._id = completion_id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._with_logprobs = with_logprobs
        self._logprobs: dict[int, CompletionLogprobsBuilder] = {}

    def events(self, output: GenerationOutput) -> Iterator[bytes]:
        """Yield the events of one output of the engine; a held-back token has none. An error ends the stream."""
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            # All choices are cancelled together; the last output has the usage.
            if output.finish_reason is FinishReason.ERROR or output.usage is not None:
                yield sse.encode_event(openai_stream_error(output))
            return
        if output.text or output.logprobs or output.finish_reason is not None:
            yield self._chunk([self._choice(output)], None)
        if output.usage is not None:
            if self._include_usage:
                yield self._chunk([], TokenUsage.from_engine(output.usage))
            yield sse.DONE

    def _choice(self, output: GenerationOutput) -> CompletionChunkChoice:
        logprobs = None
        if self._with_logprobs:
            builder = self._logprobs.setdefault(output.choice, CompletionLogprobsBuilder())
            logprobs = builder.add(output.text, output.logprobs)
        return CompletionChunkChoice(output.text, output.choice, logprobs, output.finish_reason)

    def _chunk(self, choices: list[CompletionChunkChoice], usage: TokenUsage | None) -> bytes:
        optional_usage = usage if self._include_usage else UNSET
        return sse.encode_event(
            CompletionChunk(self._id, "text_completion", self._created, self._model, choices, optional_usage)
        )
