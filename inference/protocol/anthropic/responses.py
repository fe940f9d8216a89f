"""Responses of Anthropic's messages, whole and streamed."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import FinishReason, GenerationOutput, ToolCallDelta
from inference.engine import Usage as EngineUsage
from inference.protocol import sse
from inference.protocol.anthropic.content import INVALID_JSON
from inference.protocol.anthropic.errors import anthropic_error_body
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import error_code_and_status, error_from_output
from inference.protocol.fields import ModelId
from inference.protocol.messages import FunctionName, ToolCallId
from inference.protocol.tools import join_tool_call_deltas

MessageId = Annotated[str, Meta(description="Id of the message.", examples=["msg_a522548d6a61ca775954345a"])]
StopReason = Annotated[
    Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"] | None,
    Meta(description="Why the message ended; null before its end."),
]
StopSequenceField = Annotated[
    str | None, Meta(description="Stop sequence that ended the message, or null.", examples=[None])
]
BlockIndex = Annotated[int, Meta(description="Position of the block, from 0.", examples=[0])]


class TextContent(Struct, tag_field="type", tag="text"):
    """A generated text."""

    text: Annotated[str, Meta(description="Generated text.", examples=["A quiet kettle."])]


class ThinkingContent(Struct, tag_field="type", tag="thinking"):
    """Reasoning before the text."""

    thinking: Annotated[str, Meta(description="Text of the reasoning.", examples=["A kettle boils water."])]
    signature: Annotated[str, Meta(description="Always empty: reasoning is not signed.", examples=[""])] = ""


class ToolUseContent(Struct, tag_field="type", tag="tool_use"):
    """A call that the model requests."""

    id: ToolCallId
    name: FunctionName
    input: Annotated[
        dict[str, Any],
        Meta(
            description=f"Arguments of the call. Arguments that `max_tokens` cut are text under `{INVALID_JSON}`.",
            examples=[{"product": "lamp", "amount": 2}],
        ),
    ]


Content = ThinkingContent | TextContent | ToolUseContent


class MessagesUsage(Struct):
    """Token counts of a message."""

    input_tokens: Annotated[int, Meta(description="Number of prompt tokens that were computed.", examples=[35])]
    output_tokens: Annotated[int, Meta(description="Number of generated tokens.", examples=[24])]
    cache_read_input_tokens: Annotated[
        int, Meta(description="Number of prompt tokens that were read from the prefix cache.", examples=[0])
    ] = 0
    cache_creation_input_tokens: Annotated[int, Meta(description="Always 0.", examples=[0])] = 0

    @classmethod
    def from_engine(cls, usage: EngineUsage) -> "MessagesUsage":
        return cls(usage.prompt_tokens - usage.cached_tokens, usage.completion_tokens, usage.cached_tokens)


class MessageResponse(Struct):
    """The whole response."""

    id: MessageId
    type: Annotated[Literal["message"], Meta(description="Kind of the object.")]
    role: Annotated[Literal["assistant"], Meta(description="Author of the message.")]
    model: ModelId
    content: Annotated[list[Content], Meta(description="Blocks of the message.")]
    stop_reason: StopReason
    stop_sequence: StopSequenceField
    usage: Annotated[MessagesUsage, Meta(description="Token usage of the request.")]


class CountTokensResponse(Struct):
    """The number of tokens of a conversation."""

    input_tokens: Annotated[int, Meta(description="Number of tokens of the prompt.", examples=[35])]


def build_message(
    message_id: str, model: str, choice: GeneratedChoice, usage: EngineUsage, *, shows_thinking: bool = True
) -> MessageResponse:
    reasoning: list[Content] = [ThinkingContent(choice.reasoning)] if choice.reasoning and shows_thinking else []
    texts: list[Content] = [TextContent(choice.text)] if choice.text else []
    calls: list[Content] = [
        ToolUseContent(call.id, call.function.name, _input(call.function.arguments))
        for call in join_tool_call_deltas(choice.tool_calls)
    ]
    return MessageResponse(
        message_id,
        "message",
        "assistant",
        model,
        reasoning + texts + calls,
        _stop_reason(choice.finish_reason, choice.stop_sequence),
        choice.stop_sequence,
        MessagesUsage.from_engine(usage),
    )


def _input(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {INVALID_JSON: arguments}


def _stop_reason(
    reason: FinishReason, stop_sequence: str | None
) -> Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]:
    if reason is FinishReason.LENGTH:
        return "max_tokens"
    if reason is FinishReason.TOOL_CALLS:
        return "tool_use"
    return "end_turn" if stop_sequence is None else "stop_sequence"


class MessageStart(Struct, tag_field="type", tag="message_start"):
    """The beginning of a message, without content."""

    message: Annotated[MessageResponse, Meta(description="Message without content.")]


class ContentBlockStart(Struct, tag_field="type", tag="content_block_start"):
    """The beginning of a block, which is empty."""

    index: BlockIndex
    content_block: Annotated[Content, Meta(description="Empty block.")]


class TextDelta(Struct, tag_field="type", tag="text_delta"):
    """Further text of a block."""

    text: Annotated[str, Meta(description="Further text.", examples=[" quiet"])]


class ThinkingDelta(Struct, tag_field="type", tag="thinking_delta"):
    """Further reasoning of a block."""

    thinking: Annotated[str, Meta(description="Further reasoning.", examples=[" boils"])]


class InputJsonDelta(Struct, tag_field="type", tag="input_json_delta"):
    """Further text of a call's arguments."""

    partial_json: Annotated[str, Meta(description="Further text of the arguments.", examples=['{"product":'])]


class ContentBlockDelta(Struct, tag_field="type", tag="content_block_delta"):
    """An addition to a block."""

    index: BlockIndex
    delta: Annotated[TextDelta | ThinkingDelta | InputJsonDelta, Meta(description="Addition to the block.")]


class ContentBlockStop(Struct, tag_field="type", tag="content_block_stop"):
    """The end of a block."""

    index: BlockIndex


class StopDelta(Struct):
    """The reason why a message ended."""

    stop_reason: StopReason
    stop_sequence: StopSequenceField


class MessageDelta(Struct, tag_field="type", tag="message_delta"):
    """The end of the content, with the token usage."""

    delta: Annotated[StopDelta, Meta(description="Reason of the end.")]
    usage: Annotated[MessagesUsage, Meta(description="Token usage of the request.")]


class MessageStop(Struct, tag_field="type", tag="message_stop"):
    """The end of the stream."""


StreamEvent = MessageStart | ContentBlockStart | ContentBlockDelta | ContentBlockStop | MessageDelta | MessageStop
STREAM_EVENTS = (MessageStart, ContentBlockStart, ContentBlockDelta, ContentBlockStop, MessageDelta, MessageStop)


class MessageStreamEncoder:
    """Encodes the events of one stream. Blocks follow one another: each ends before the next begins."""

    def __init__(self, message_id: str, model: str, *, shows_thinking: bool = True) -> None:
        self._shows_thinking = shows_thinking
        self._message_id = message_id
        self._model = model
        self._block: type[Content] | None = None
        self._index = -1

    def start(self, prompt_tokens: int) -> bytes:
        """Return the first event."""
        usage = MessagesUsage(prompt_tokens, 0)
        message = MessageResponse(self._message_id, "message", "assistant", self._model, [], None, None, usage)
        return _encode(MessageStart(message))

    def events(self, output: GenerationOutput) -> Iterator[bytes]:
        """Yield the events of one output of the engine; a held-back token has none. An error ends the stream."""
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            error = error_from_output(output)
            body = anthropic_error_body(error.message, error_code_and_status(error)[1])
            yield sse.encode_event(body, "error")
            return
        if output.reasoning and self._shows_thinking:
            if self._block is not ThinkingContent:
                yield from self._open(ThinkingContent(""))
            yield _encode(ContentBlockDelta(self._index, ThinkingDelta(output.reasoning)))
        if output.text:
            if self._block is not TextContent:
                yield from self._open(TextContent(""))
            yield _encode(ContentBlockDelta(self._index, TextDelta(output.text)))
        for delta in output.tool_calls:
            yield from self._tool_call_events(delta)
        if output.finish_reason is not None and output.usage is not None:
            yield from self._close()
            reason = _stop_reason(output.finish_reason, output.stop_sequence)
            stop = StopDelta(reason, output.stop_sequence)
            yield _encode(MessageDelta(stop, MessagesUsage.from_engine(output.usage)))
            yield _encode(MessageStop())

    def _tool_call_events(self, delta: ToolCallDelta) -> Iterator[bytes]:
        if delta.id is not None:
            yield from self._open(ToolUseContent(delta.id, delta.name or "", {}))
        if delta.arguments:
            yield _encode(ContentBlockDelta(self._index, InputJsonDelta(delta.arguments)))

    def _open(self, block: Content) -> Iterator[bytes]:
        yield from self._close()
        self._block, self._index = type(block), self._index + 1
        yield _encode(ContentBlockStart(self._index, block))

    def _close(self) -> Iterator[bytes]:
        if self._block is not None:
            self._block = None
            yield _encode(ContentBlockStop(self._index))


def _encode(event: StreamEvent) -> bytes:
    return sse.encode_event(event, str(event.__struct_config__.tag))
