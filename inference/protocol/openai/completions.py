"""OpenAI's older completions: raw prompts, several at once, whole and streamed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import FinishReason, GenerationOutput, GenerationRequest
from inference.engine import Usage as EngineUsage
from inference.protocol import sse
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import openai_stream_error
from inference.protocol.openai.completion_logprobs import CompletionLogprobs, CompletionLogprobsBuilder
from inference.protocol.openai.parameters import OpenAISamplingParameters, UnsupportedFields, reject_unsupported_fields
from inference.protocol.openai.text_inputs import TextInputs, read_text_inputs
from inference.protocol.parsing import parse_struct
from inference.protocol.token_usage import TokenUsage

MAX_PROMPTS = 64
DEFAULT_MAX_TOKENS = 16

_UNSUPPORTED: UnsupportedFields = {"best_of": (1,), "suffix": ("",)}

CompletionTopLogprobs = Annotated[
    int, Meta(ge=0, le=5, description="Log probabilities, with so many best tokens beside each.")
]
Echo = Annotated[bool, Meta(description="The text begins with the prompt.")]


class CompletionRequest(OpenAISamplingParameters, kw_only=True):
    """POST /v1/completions. An absent `max_tokens` is 16."""

    model: str
    prompt: Annotated[
        TextInputs, Meta(description="A text, several (at most 64), token ids, or several arrays of them.")
    ]
    echo: Echo | None = None
    logprobs: CompletionTopLogprobs | None = None

    def generation_requests(self, request_id: str) -> tuple[GenerationRequest, ...]:
        """What the engine is asked for, one request a prompt; each gets what it would get alone."""
        sampling = self.sampling(max_tokens=self.max_tokens or DEFAULT_MAX_TOKENS, logprobs=self.logprobs)
        return tuple(
            GenerationRequest(
                request_id=f"{request_id}-{number}",
                prompt=text if isinstance(text, str) else None,
                prompt_ids=None if isinstance(text, str) else text,
                sampling=sampling,
                n=self.n or 1,
                echo=self.echo is True,
                timeout=self.timeout,
                priority=self.priority or 0,
            )
            for number, text in enumerate(read_text_inputs(self.prompt, field="prompt", most=MAX_PROMPTS))
        )


def parse_completion_request(value: Mapping[str, Any]) -> CompletionRequest:
    """InvalidRequest names the field that is wrong or not supported."""
    reject_unsupported_fields(value, _UNSUPPORTED)
    body = parse_struct(value, CompletionRequest)
    body.check_stream_options()
    return body


class CompletionChoice(Struct):
    """One text: the n of the first prompt come first, then those of the second."""

    text: str
    index: int
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason


class TextCompletion(Struct):
    """A whole answer. `created` is Unix time in seconds."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: TokenUsage


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
            CompletionLogprobsBuilder().write(choice.text, choice.logprobs) if with_logprobs else None,
            choice.finish_reason,
        )
        for choice in choices
    ]
    return TextCompletion(completion_id, "text_completion", created, model, texts, TokenUsage.of(usage))


class CompletionChunkChoice(Struct):
    """A piece of one text; the last one has the finish_reason."""

    text: str
    index: int
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason | None


class CompletionChunk(Struct):
    """One event of a streamed answer. `usage` is there only when it was asked for: null until the last chunk."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChunkChoice]
    usage: TokenUsage | UnsetType | None = UNSET


class CompletionStreamEncoder:
    """Forms the events of one streamed answer."""

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
        """What one output of the engine becomes; a token held back becomes nothing. An error ends the stream."""
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            # All choices are cancelled together, and the last one says so.
            if output.finish_reason is FinishReason.ERROR or output.usage is not None:
                yield sse.encode_event(openai_stream_error(output))
            return
        if output.text or output.logprobs or output.finish_reason is not None:
            yield self._chunk([self._choice(output)], None)
        if output.usage is not None:
            if self._include_usage:
                yield self._chunk([], TokenUsage.of(output.usage))
            yield sse.DONE

    def _choice(self, output: GenerationOutput) -> CompletionChunkChoice:
        told = None
        if self._with_logprobs:
            writer = self._logprobs.setdefault(output.choice, CompletionLogprobsBuilder())
            told = writer.write(output.text, output.logprobs)
        return CompletionChunkChoice(output.text, output.choice, told, output.finish_reason)

    def _chunk(self, choices: list[CompletionChunkChoice], usage: TokenUsage | None) -> bytes:
        shown = usage if self._include_usage else UNSET
        return sse.encode_event(
            CompletionChunk(self._id, "text_completion", self._created, self._model, choices, shown)
        )
