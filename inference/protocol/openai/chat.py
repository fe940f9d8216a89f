"""Wire structs of POST /v1/chat/completions, which refuses unknown fields by name."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import FinishReason, GenerationOutput, GenerationRequest, InvalidRequest
from inference.engine import Usage as EngineUsage
from inference.protocol import sse
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import openai_stream_error
from inference.protocol.fields import SYSTEM_FINGERPRINT, ChoiceIndex, CreatedUnixTime, ModelId, SystemFingerprint
from inference.protocol.logprobs import ChoiceLogprobs, choice_logprobs
from inference.protocol.messages import ChatMessage, ChatToolCall
from inference.protocol.native.inference import FinishReasonField
from inference.protocol.openai.parameters import OpenAISamplingParameters, ReasoningEffort, supported_fields
from inference.protocol.parameters import LogprobsFlag, MaxTokens, TopLogprobs
from inference.protocol.parsing import UnsupportedFields, parse_struct
from inference.protocol.sampling import requested_logprobs
from inference.protocol.token_usage import TokenUsage
from inference.protocol.tools import (
    ChatTool,
    ChatToolCallDelta,
    ToolChoice,
    chat_tool_call_deltas,
    engine_tool_choice,
    join_tool_call_deltas,
)

_UNSUPPORTED: UnsupportedFields = {
    "audio": (),
    "echo": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "moderation": (),
    "prediction": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "verbosity": (),
    "web_search_options": (),
}


ChatCompletionId = Annotated[
    str, Meta(description="Id of the completion.", examples=["chatcmpl-a522548d6a61ca775954345a"])
]
ReasoningContent = Annotated[
    str, Meta(description="Reasoning before the text, if the model writes any.", examples=["A kettle boils water."])
]
TemplateOption = bool | int | float | Annotated[str, Meta(max_length=64)]
TemplateOptions = Annotated[dict[Annotated[str, Meta(max_length=64)], TemplateOption], Meta(max_length=16)]
AssistantRole = Annotated[Literal["assistant"], Meta(description="Author of the message.")]
ChatLogprobs = Annotated[
    ChoiceLogprobs | None, Meta(description="Log probabilities of the text's tokens, or null if not requested.")
]


class ChatCompletionRequest(OpenAISamplingParameters, kw_only=True, forbid_unknown_fields=True):
    """A chat. By default `max_tokens` is the rest of the context."""

    model: ModelId
    messages: Annotated[
        list[ChatMessage], Meta(min_length=1, description="Messages of the conversation, the oldest first.")
    ]
    max_completion_tokens: (
        Annotated[MaxTokens, Meta(description="Newer name of `max_tokens`, which it overrides.")] | None
    ) = None
    logprobs: LogprobsFlag | None = None
    top_logprobs: TopLogprobs | None = None
    tools: Annotated[
        Annotated[list[ChatTool], Meta(max_length=128)] | None,
        Meta(description="Functions that the model may call, at most 128."),
    ] = None
    tool_choice: Annotated[
        ToolChoice | None,
        Meta(
            description="Whether the model calls tools: `none`, `auto` (the default), `required`, or a named function.",
            examples=["auto"],
        ),
    ] = None
    parallel_tool_calls: (
        Annotated[
            bool, Meta(description="Whether a message may have several tool calls. By default true.", examples=[False])
        ]
        | None
    ) = None

    reasoning_effort: Annotated[
        ReasoningEffort | None,
        Meta(
            description="How much the model reasons before its message: an option of its chat template, or `none` to "
            "switch reasoning off."
        ),
    ] = None
    chat_template_kwargs: Annotated[
        TemplateOptions | None,
        Meta(
            description="Options of the model's chat template: `enable_thinking`, `thinking`, `reasoning_effort`, and "
            "those that the operator lists for the model.",
            examples=[{"enable_thinking": False}],
        ),
    ] = None

    def generation_request(self, request_id: str) -> GenerationRequest:
        """Return the engine's request."""
        max_tokens = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        return GenerationRequest(
            request_id=request_id,
            messages=tuple(message.to_engine() for message in self.messages),
            sampling=self.sampling(
                max_tokens=max_tokens, logprobs=requested_logprobs(self.logprobs, self.top_logprobs)
            ),
            n=1 if self.n is None else self.n,
            tools=tuple(tool.to_engine() for tool in self.tools or ()),
            tool_choice=engine_tool_choice(self.tool_choice),
            parallel_tool_calls=self.parallel_tool_calls is not False,
            template_options=self._template_options(),
            thinking=False if self.reasoning_effort == "none" else None,
            separates_reasoning=True,
            timeout=self.timeout,
            priority=0 if self.priority is None else self.priority,
        )

    def _template_options(self) -> dict[str, Any]:
        options = dict(self.chat_template_kwargs or {})
        if self.reasoning_effort not in (None, "none"):
            if "reasoning_effort" in options:
                raise InvalidRequest(
                    "`reasoning_effort` is also in `chat_template_kwargs`: send one of them.", field="reasoning_effort"
                )
            options["reasoning_effort"] = self.reasoning_effort
        return options


def parse_chat_request(value: Mapping[str, Any]) -> ChatCompletionRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    body = parse_struct(supported_fields(value, _UNSUPPORTED), ChatCompletionRequest)
    body.check_stream_options()
    return body


class AssistantMessage(Struct):
    """The generated message."""

    role: AssistantRole
    content: Annotated[
        str | None,
        Meta(description="Text of the message, or null if it only calls tools.", examples=["A quiet kettle."]),
    ]
    refusal: Annotated[None, Meta(description="Always null.")] = None
    reasoning_content: ReasoningContent | UnsetType = UNSET
    tool_calls: Annotated[list[ChatToolCall], Meta(description="Calls that the model requests.")] | UnsetType = UNSET


class ChatChoice(Struct):
    """One generated message."""

    index: ChoiceIndex
    message: Annotated[AssistantMessage, Meta(description="Generated message.")]
    finish_reason: FinishReasonField
    logprobs: ChatLogprobs = None


class ChatCompletion(Struct):
    """The whole response."""

    id: ChatCompletionId
    object: Annotated[Literal["chat.completion"], Meta(description="Kind of the object.")]
    created: CreatedUnixTime
    model: ModelId
    choices: Annotated[list[ChatChoice], Meta(description="Generated messages.")]
    usage: Annotated[TokenUsage, Meta(description="Token usage of the request.")]
    system_fingerprint: SystemFingerprint = SYSTEM_FINGERPRINT


def build_chat_completion(
    *,
    completion_id: str,
    created: int,
    model: str,
    choices: Iterable[GeneratedChoice],
    usage: EngineUsage,
    with_logprobs: bool = False,
) -> ChatCompletion:
    chat_choices = [
        ChatChoice(
            choice.index,
            _message(choice),
            choice.finish_reason,
            choice_logprobs(choice.logprobs) if with_logprobs else None,
        )
        for choice in choices
    ]
    return ChatCompletion(
        completion_id,
        "chat.completion",
        created,
        model,
        chat_choices,
        TokenUsage.from_engine(usage, separates_reasoning=True),
    )


def _message(choice: GeneratedChoice) -> AssistantMessage:
    reasoning = choice.reasoning or UNSET
    if not choice.tool_calls:
        return AssistantMessage("assistant", choice.text, reasoning_content=reasoning)
    calls = join_tool_call_deltas(choice.tool_calls)
    return AssistantMessage("assistant", choice.text or None, reasoning_content=reasoning, tool_calls=calls)


class ChatDelta(Struct):
    """The addition of a chunk to its message."""

    role: AssistantRole | UnsetType = UNSET
    content: Annotated[str, Meta(description="Further text.", examples=[" quiet"])] | UnsetType = UNSET
    reasoning_content: ReasoningContent | UnsetType = UNSET
    tool_calls: Annotated[list[ChatToolCallDelta], Meta(description="Pieces of tool calls.")] | UnsetType = UNSET


class ChatChunkChoice(Struct):
    """A chunk of one message."""

    index: ChoiceIndex
    delta: Annotated[ChatDelta, Meta(description="Addition to the message.")]
    finish_reason: Annotated[
        FinishReasonField | None, Meta(description="Why the message ended, or null before its last chunk.")
    ] = None
    logprobs: ChatLogprobs = None


class ChatCompletionChunk(Struct):
    """One event of a stream."""

    id: ChatCompletionId
    object: Annotated[Literal["chat.completion.chunk"], Meta(description="Kind of the object.")]
    created: CreatedUnixTime
    model: ModelId
    choices: Annotated[list[ChatChunkChoice], Meta(description="Chunks of messages; empty in the one with the usage.")]
    usage: Annotated[
        TokenUsage | UnsetType | None,
        Meta(description="Token usage, only if requested with `include_usage`: null before the last chunk."),
    ] = UNSET


class ChatStreamEncoder:
    """Encodes the events of one stream."""

    def __init__(self, *, completion_id: str, created: int, model: str, include_usage: bool, n: int = 1) -> None:
        self._id = completion_id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._n = n

    def start(self) -> bytes:
        """Return the first chunk of each choice, which has the role."""
        return b"".join(self._chunk(choice, ChatDelta(role="assistant", content="")) for choice in range(self._n))

    def events(self, output: GenerationOutput) -> Iterator[bytes]:
        """Yield the events of one output of the engine; a held-back token has none. An error ends the stream."""
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            # All choices are cancelled together; the last output has the usage.
            if output.finish_reason is FinishReason.ERROR or output.usage is not None:
                yield sse.encode_event(openai_stream_error(output))
            return
        if output.reasoning:
            yield self._chunk(output.choice, ChatDelta(reasoning_content=output.reasoning))
        if output.text or output.logprobs:
            logprobs = choice_logprobs(output.logprobs) if output.logprobs else None
            yield self._chunk(output.choice, ChatDelta(content=output.text), logprobs=logprobs)
        if output.tool_calls:
            yield self._chunk(output.choice, ChatDelta(tool_calls=chat_tool_call_deltas(output.tool_calls)))
        if output.finish_reason is not None:
            yield self._chunk(output.choice, ChatDelta(), output.finish_reason)
        if output.usage is not None:
            if self._include_usage:
                yield sse.encode_event(self._build([], TokenUsage.from_engine(output.usage, separates_reasoning=True)))
            yield sse.DONE

    def _chunk(
        self, choice: int, delta: ChatDelta, reason: FinishReason | None = None, logprobs: ChoiceLogprobs | None = None
    ) -> bytes:
        return sse.encode_event(self._build([ChatChunkChoice(choice, delta, reason, logprobs)], None))

    def _build(self, choices: list[ChatChunkChoice], usage: TokenUsage | None) -> ChatCompletionChunk:
        optional_usage = usage if self._include_usage else UNSET
        return ChatCompletionChunk(
            self._id, "chat.completion.chunk", self._created, self._model, choices, optional_usage
        )
