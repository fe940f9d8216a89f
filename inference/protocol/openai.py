"""The OpenAI-compatible wire forms. Fields that we cannot follow are refused by name; unknown ones are ignored."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import (
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    Message,
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
from inference.protocol.errors import stream_failure
from inference.protocol.logprobs import Logprobs, logprobs
from inference.protocol.native import Usage
from inference.protocol.openai_parameters import OpenAIParameters, Unsupported, refuse_unsupported
from inference.protocol.parameters import MaxTokens, parse
from inference.protocol.sampling import TopLogprobs, asked_logprobs

_UNSUPPORTED: Unsupported = {
    "audio": (),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "moderation": (),
    "prediction": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
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


class ChatBody(OpenAIParameters, kw_only=True):
    """POST /v1/chat/completions. An absent `max_tokens` is what is left of the context."""

    model: str
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    max_completion_tokens: MaxTokens | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    tools: Annotated[list[ChatTool], Meta(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None

    def generation_request(self, request_id: str) -> GenerationRequest:
        """What the engine is asked for."""
        max_tokens = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        return GenerationRequest(
            request_id=request_id,
            messages=tuple(message.message() for message in self.messages),
            sampling=self.sampling(max_tokens=max_tokens, logprobs=asked_logprobs(self.logprobs, self.top_logprobs)),
            n=1 if self.n is None else self.n,
            tools=tuple(tool.tool() for tool in self.tools or ()),
            tool_choice=tool_choice(self.tool_choice),
            timeout=self.timeout,
            priority=0 if self.priority is None else self.priority,
        )


def parse_chat(value: Mapping[str, Any]) -> ChatBody:
    """InvalidRequest names the field that is wrong or not supported."""
    refuse_unsupported(value, _UNSUPPORTED)
    body = parse(value, ChatBody)
    body.check_stream_options()
    return body


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
                yield sse.event(stream_failure(output))
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


class OpenAIErrorEvent(Struct):
    """The end of a stream that failed."""

    error: OpenAIErrorDetail


class OpenAIError(Struct):
    """Every error of a /v1 route."""

    error: OpenAIErrorDetail
    request_id: str
    timestamp: str
