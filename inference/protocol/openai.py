"""The OpenAI-compatible wire forms. Fields that we cannot follow are refused by name; unknown ones are ignored."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from inference.engine import (
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    InvalidRequest,
    Message,
    SamplingParams,
)
from inference.engine import Usage as EngineUsage
from inference.protocol import sse
from inference.protocol.chat_tools import (
    ChatTool,
    ChatToolCall,
    ChatToolCallDelta,
    ToolChoice,
    call_deltas,
    tool_choice,
    whole_calls,
)
from inference.protocol.choices import Choice
from inference.protocol.errors import code_and_status, error_of, openai_error
from inference.protocol.logprobs import Logprobs, logprobs
from inference.protocol.native import Usage
from inference.protocol.parameters import (
    Choices,
    MaxTokens,
    Priority,
    RepeatPenalty,
    Seed,
    StopSequence,
    StopSequences,
    Temperature,
    Timeout,
    TopK,
    TopP,
    parse,
)
from inference.protocol.sampling import FurtherSampling

# Fields that change what is generated and that this server cannot follow, with the values that ask for nothing.
# `null` is always one of them.
_UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "audio": (),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "prediction": (),
    "reasoning_effort": (),
    "service_tier": ("auto",),
    "store": (False,),
    "verbosity": (),
    "web_search_options": (),
}


class TextPart(Struct):
    """A piece of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(Struct):
    """One message; `developer` is OpenAI's newer name for `system`."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None

    def __post_init__(self) -> None:
        if self.content is None and not self.tool_calls:
            raise ValueError("Every message needs content, but one that calls tools")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("Only an assistant's message can have tool_calls")
        if (self.tool_call_id is None) == (self.role == "tool"):
            raise ValueError("A tool's message, and no other, needs a tool_call_id")

    def message(self) -> Message:
        parts = [TextPart("text", self.content)] if isinstance(self.content, str) else self.content or []
        return Message(
            "system" if self.role == "developer" else self.role,
            "".join(part.text for part in parts),
            tuple(call.call() for call in self.tool_calls or ()),
            self.tool_call_id,
        )


class StreamOptions(Struct):
    """What a stream carries beside the text."""

    include_usage: bool | None = None


class ChatBody(FurtherSampling, kw_only=True):
    """POST /v1/chat/completions. An absent `max_tokens` is what is left of the context."""

    model: str
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    max_tokens: MaxTokens | None = None
    max_completion_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    repeat_penalty: RepeatPenalty | None = None
    stop: StopSequence | StopSequences | None = None
    seed: Seed | None = None
    n: Choices | None = None
    timeout: Timeout | None = None
    priority: Priority | None = None
    tools: Annotated[list[ChatTool], Meta(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage is True

    def generation_request(self, request_id: str) -> GenerationRequest:
        """What the engine is asked for."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        sampling = SamplingParams(
            max_tokens=self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=0 if self.top_k is None else self.top_k,
            repeat_penalty=1.0 if self.repeat_penalty is None else self.repeat_penalty,
            seed=self.seed,
            stop=stop,
            **self.further(),
        )
        return GenerationRequest(
            request_id=request_id,
            messages=tuple(message.message() for message in self.messages),
            sampling=sampling,
            n=1 if self.n is None else self.n,
            tools=tuple(tool.tool() for tool in self.tools or ()),
            tool_choice=tool_choice(self.tool_choice),
            timeout=self.timeout,
            priority=0 if self.priority is None else self.priority,
        )


def parse_chat(value: Mapping[str, Any]) -> ChatBody:
    """InvalidRequest names the field that is wrong or not supported."""
    for field, given in value.items():
        if field.startswith("chat_template") or field in _UNSUPPORTED:
            if given is None or any(_same(given, neutral) for neutral in _UNSUPPORTED.get(field, ())):
                continue
            raise InvalidRequest(f"{field[:100]} is not supported by this server: leave it out.", field=field[:100])
    body = parse(value, ChatBody)
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("stream_options is for streams only: set stream to true.", field="stream_options")
    return body


def _same(given: object, neutral: object) -> bool:
    """Equal, where true is not 1."""
    return given == neutral and isinstance(given, bool) == isinstance(neutral, bool)


class AnswerMessage(Struct):
    """What the model said; `content` is null where it only calls tools."""

    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    tool_calls: list[ChatToolCall] | UnsetType = UNSET


class ChatChoice(Struct):
    """One answer."""

    index: int
    message: AnswerMessage
    finish_reason: FinishReason
    logprobs: Logprobs | None = None


class ChatCompletion(Struct):
    """A whole answer. `created` is Unix time in seconds."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


def chat_completion(
    *,
    completion_id: str,
    created: int,
    model: str,
    choices: Iterable[Choice],
    usage: EngineUsage,
    with_logprobs: bool = False,
) -> ChatCompletion:
    answers = [
        ChatChoice(
            choice.index, _answer(choice), choice.finish_reason, logprobs(choice.logprobs) if with_logprobs else None
        )
        for choice in choices
    ]
    return ChatCompletion(completion_id, "chat.completion", created, model, answers, Usage.of(usage))


def _answer(choice: Choice) -> AnswerMessage:
    if not choice.tool_calls:
        return AnswerMessage("assistant", choice.text)
    return AnswerMessage("assistant", choice.text or None, tool_calls=whole_calls(choice.tool_calls))


class Delta(Struct):
    """What a chunk adds."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[ChatToolCallDelta] | UnsetType = UNSET


class ChunkChoice(Struct):
    """A chunk of one answer."""

    index: int
    delta: Delta
    finish_reason: FinishReason | None = None
    logprobs: Logprobs | None = None


class ChatChunk(Struct):
    """One event of a streamed answer. `usage` is there only when it was asked for: null until the last chunk."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET


class ChatStream:
    """Forms the events of one streamed answer."""

    def __init__(self, *, completion_id: str, created: int, model: str, include_usage: bool, n: int = 1) -> None:
        self._id = completion_id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._n = n

    def start(self) -> bytes:
        """The chunks that name the role, one a choice."""
        return b"".join(self._chunk(choice, Delta(role="assistant", content="")) for choice in range(self._n))

    def events(self, output: GenerationOutput) -> Iterator[bytes]:
        """What one output of the engine becomes; a token held back becomes nothing. An error ends the stream."""
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            # All choices are cancelled together, and the last one says so.
            if output.finish_reason is FinishReason.ERROR or output.usage is not None:
                yield sse.event(_failure(output))
            return
        if output.text or output.logprobs:
            told = logprobs(output.logprobs) if output.logprobs else None
            yield self._chunk(output.choice, Delta(content=output.text), told=told)
        if output.tool_calls:
            yield self._chunk(output.choice, Delta(tool_calls=call_deltas(output.tool_calls)))
        if output.finish_reason is not None:
            yield self._chunk(output.choice, Delta(), output.finish_reason)
        if output.usage is not None:
            if self._include_usage:
                yield sse.event(self._form([], Usage.of(output.usage)))
            yield sse.DONE

    def _chunk(
        self, choice: int, delta: Delta, reason: FinishReason | None = None, told: Logprobs | None = None
    ) -> bytes:
        return sse.event(self._form([ChunkChoice(choice, delta, reason, told)], None))

    def _form(self, choices: list[ChunkChoice], usage: Usage | None) -> ChatChunk:
        shown = usage if self._include_usage else UNSET
        return ChatChunk(self._id, "chat.completion.chunk", self._created, self._model, choices, shown)


def _failure(output: GenerationOutput) -> dict[str, Any]:
    if output.finish_reason is FinishReason.CANCELLED:
        output = replace(output, error="The generation was cancelled by the server; try again.")
    error = error_of(output)
    code, status = code_and_status(error)
    return openai_error(code, error.message, status)


class ModelEntry(Struct):
    """A model as OpenAI's clients know it. `created` is when its files were last changed, in Unix seconds."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelPage(Struct):
    """All models."""

    object: Literal["list"]
    data: list[ModelEntry]


class OpenAIErrorDetail(Struct):
    """What went wrong; `param` is the field that was wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct):
    """Every error of a /v1 route."""

    error: OpenAIErrorDetail
    request_id: str
    timestamp: str
