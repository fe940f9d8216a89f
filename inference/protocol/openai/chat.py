"""The OpenAI-compatible wire forms. Fields that we cannot follow are refused by name; unknown ones are ignored."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import (
    FinishReason,
    GenerationOutput,
    GenerationRequest,
)
from inference.engine import Usage as EngineUsage
from inference.protocol import sse
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import openai_stream_error
from inference.protocol.logprobs import ChoiceLogprobs, choice_logprobs
from inference.protocol.messages import ChatMessage, ChatToolCall
from inference.protocol.openai.parameters import OpenAISamplingParameters, UnsupportedFields, reject_unsupported_fields
from inference.protocol.openai.tools import (
    ChatTool,
    ChatToolCallDelta,
    ToolChoice,
    chat_tool_call_deltas,
    engine_tool_choice,
    join_tool_call_deltas,
)
from inference.protocol.parameters import MaxTokens
from inference.protocol.parsing import parse_struct
from inference.protocol.sampling import TopLogprobs, requested_logprobs
from inference.protocol.token_usage import TokenUsage

_UNSUPPORTED: UnsupportedFields = {
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


class ChatCompletionRequest(OpenAISamplingParameters, kw_only=True):
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
            sampling=self.sampling(
                max_tokens=max_tokens, logprobs=requested_logprobs(self.logprobs, self.top_logprobs)
            ),
            n=1 if self.n is None else self.n,
            tools=tuple(tool.tool() for tool in self.tools or ()),
            tool_choice=engine_tool_choice(self.tool_choice),
            timeout=self.timeout,
            priority=0 if self.priority is None else self.priority,
        )


def parse_chat_request(value: Mapping[str, Any]) -> ChatCompletionRequest:
    """InvalidRequest names the field that is wrong or not supported."""
    reject_unsupported_fields(value, _UNSUPPORTED)
    body = parse_struct(value, ChatCompletionRequest)
    body.check_stream_options()
    return body


class AssistantMessage(Struct):
    """What the model said; `content` is null where it only calls tools."""

    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    tool_calls: list[ChatToolCall] | UnsetType = UNSET


class ChatChoice(Struct):
    """One answer."""

    index: int
    message: AssistantMessage
    finish_reason: FinishReason
    logprobs: ChoiceLogprobs | None = None


class ChatCompletion(Struct):
    """A whole answer. `created` is Unix time in seconds."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenUsage


def build_chat_completion(
    *,
    completion_id: str,
    created: int,
    model: str,
    choices: Iterable[GeneratedChoice],
    usage: EngineUsage,
    with_logprobs: bool = False,
) -> ChatCompletion:
    answers = [
        ChatChoice(
            choice.index,
            _answer(choice),
            choice.finish_reason,
            choice_logprobs(choice.logprobs) if with_logprobs else None,
        )
        for choice in choices
    ]
    return ChatCompletion(completion_id, "chat.completion", created, model, answers, TokenUsage.of(usage))


def _answer(choice: GeneratedChoice) -> AssistantMessage:
    if not choice.tool_calls:
        return AssistantMessage("assistant", choice.text)
    return AssistantMessage("assistant", choice.text or None, tool_calls=join_tool_call_deltas(choice.tool_calls))


class ChatDelta(Struct):
    """What a chunk adds."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[ChatToolCallDelta] | UnsetType = UNSET


class ChatChunkChoice(Struct):
    """A chunk of one answer."""

    index: int
    delta: ChatDelta
    finish_reason: FinishReason | None = None
    logprobs: ChoiceLogprobs | None = None


class ChatCompletionChunk(Struct):
    """One event of a streamed answer. `usage` is there only when it was asked for: null until the last chunk."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: TokenUsage | UnsetType | None = UNSET


class ChatStreamEncoder:
    """Forms the events of one streamed answer."""

    def __init__(self, *, completion_id: str, created: int, model: str, include_usage: bool, n: int = 1) -> None:
        self._id = completion_id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._n = n

    def start(self) -> bytes:
        """The chunks that name the role, one a choice."""
        return b"".join(self._chunk(choice, ChatDelta(role="assistant", content="")) for choice in range(self._n))

    def events(self, output: GenerationOutput) -> Iterator[bytes]:
        """What one output of the engine becomes; a token held back becomes nothing. An error ends the stream."""
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            # All choices are cancelled together, and the last one says so.
            if output.finish_reason is FinishReason.ERROR or output.usage is not None:
                yield sse.encode_event(openai_stream_error(output))
            return
        if output.text or output.logprobs:
            told = choice_logprobs(output.logprobs) if output.logprobs else None
            yield self._chunk(output.choice, ChatDelta(content=output.text), told=told)
        if output.tool_calls:
            yield self._chunk(output.choice, ChatDelta(tool_calls=chat_tool_call_deltas(output.tool_calls)))
        if output.finish_reason is not None:
            yield self._chunk(output.choice, ChatDelta(), output.finish_reason)
        if output.usage is not None:
            if self._include_usage:
                yield sse.encode_event(self._form([], TokenUsage.of(output.usage)))
            yield sse.DONE

    def _chunk(
        self, choice: int, delta: ChatDelta, reason: FinishReason | None = None, told: ChoiceLogprobs | None = None
    ) -> bytes:
        return sse.encode_event(self._form([ChatChunkChoice(choice, delta, reason, told)], None))

    def _form(self, choices: list[ChatChunkChoice], usage: TokenUsage | None) -> ChatCompletionChunk:
        shown = usage if self._include_usage else UNSET
        return ChatCompletionChunk(self._id, "chat.completion.chunk", self._created, self._model, choices, shown)
