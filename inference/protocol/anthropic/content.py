"""Content blocks and messages of a request, and their translation to the engine's messages."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import InvalidRequest, Message, ToolCall
from inference.protocol.messages import FunctionName, ToolCallId

INVALID_JSON = "INVALID_JSON"  # Anthropic's key for arguments that are not valid JSON

CacheControl = Annotated[
    dict[str, Any] | None,
    Meta(description="No effect: prefixes of your own requests are cached always.", examples=[{"type": "ephemeral"}]),
]
BlockText = Annotated[str, Meta(description="Text of the block.", examples=["Describe a lamp."])]


class TextBlock(Struct, tag_field="type", tag="text"):
    """A text."""

    text: BlockText
    cache_control: CacheControl = None


class ToolUseBlock(Struct, tag_field="type", tag="tool_use"):
    """A tool call of the assistant."""

    id: ToolCallId
    name: FunctionName
    input: Annotated[
        dict[str, Any], Meta(description="Arguments of the call.", examples=[{"product": "lamp", "amount": 2}])
    ]
    cache_control: CacheControl = None


class ToolResultBlock(Struct, tag_field="type", tag="tool_result"):
    """The result of a tool call."""

    tool_use_id: ToolCallId
    content: Annotated[
        str | list["ContentBlock"] | None, Meta(description="Result, as text or blocks of text.", examples=["ordered"])
    ] = None
    is_error: Annotated[bool, Meta(description="Whether the tool failed.", examples=[False])] = False
    cache_control: CacheControl = None


class ThinkingBlock(Struct, tag_field="type", tag="thinking"):
    """Reasoning of an earlier message of the assistant. The model does not read it again."""

    thinking: Annotated[str, Meta(description="Text of the reasoning.", examples=["A lamp gives light."])]
    signature: Annotated[str, Meta(description="Not checked.", examples=[""])] = ""


class RedactedThinkingBlock(Struct, tag_field="type", tag="redacted_thinking"):
    """Hidden reasoning of an earlier message. It has no effect."""

    data: Annotated[str, Meta(description="Not read.", examples=[""])] = ""


class ImageBlock(Struct, tag_field="type", tag="image"):
    """An image, which is refused: the models read text."""


class DocumentBlock(Struct, tag_field="type", tag="document"):
    """A document, which is refused: the models read text."""


ContentBlock = (
    TextBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock | RedactedThinkingBlock | ImageBlock | DocumentBlock
)


class AnthropicMessage(Struct):
    """One turn of the conversation."""

    role: Annotated[Literal["user", "assistant"], Meta(description="Author of the turn.")]
    content: Annotated[
        str | list[ContentBlock],
        Meta(description="Text of the turn, or its blocks in order.", examples=["Describe a lamp."]),
    ]


def system_text(system: str | Sequence[TextBlock] | None) -> str:
    """Return the system prompt as one text."""
    return system if isinstance(system, str) else "\n\n".join(block.text for block in system or ())


def engine_messages(system: str, turns: Iterable[AnthropicMessage]) -> tuple[Message, ...]:
    """Return the conversation as the engine's messages. Consecutive texts of one author are one message.

    Raise InvalidRequest, which names the block, for a block that the models cannot read or that is misplaced.
    """
    messages = [Message("system", system)] if system else []
    for position, turn in enumerate(turns):
        for message in _turn_messages(turn, f"messages[{position}]"):
            last = messages[-1] if messages else None
            if last and message.role == last.role == "user":
                messages[-1] = Message("user", f"{last.content}\n\n{message.content}")
            else:
                messages.append(message)
    if messages and messages[-1].role == "assistant":
        raise InvalidRequest(
            "`messages` must end with a turn of the user: continuing a turn of the assistant is not supported.",
            field="messages",
        )
    return tuple(messages)


def _turn_messages(turn: AnthropicMessage, path: str) -> Iterator[Message]:
    blocks = [TextBlock(turn.content)] if isinstance(turn.content, str) else turn.content
    if not blocks:
        raise InvalidRequest(f"`{path}.content` must have at least one block.", field=f"{path}.content")
    texts: list[str] = []
    calls: list[ToolCall] = []
    for position, block in enumerate(blocks):
        field = f"{path}.content[{position}]"
        if isinstance(block, ToolUseBlock) and turn.role == "assistant":
            calls.append(ToolCall(block.id, block.name, _arguments(block.input)))
        elif isinstance(block, ToolResultBlock) and turn.role == "user":
            if texts:
                yield Message("user", "\n\n".join(texts))
                texts = []
            yield Message("tool", _result_text(block, field), tool_call_id=block.tool_use_id)
        elif isinstance(block, TextBlock):
            texts.append(block.text)
        elif not isinstance(block, ThinkingBlock | RedactedThinkingBlock):
            raise _unreadable(block, field, turn.role)
    if texts or calls or turn.role == "assistant":
        yield Message(turn.role, "\n\n".join(texts), tuple(calls))


def _arguments(arguments: dict[str, Any]) -> str:
    text = arguments.get(INVALID_JSON)
    return text if isinstance(text, str) and len(arguments) == 1 else json.dumps(arguments)


def _result_text(block: ToolResultBlock, path: str) -> str:
    if block.content is None or isinstance(block.content, str):
        text = block.content or ""
    else:
        texts = []
        for position, part in enumerate(block.content):
            if not isinstance(part, TextBlock):
                raise _unreadable(part, f"{path}.content[{position}]", "tool_result")
            texts.append(part.text)
        text = "\n\n".join(texts)
    return f"Error: {text}" if block.is_error else text


def _unreadable(block: ContentBlock, field: str, place: str) -> InvalidRequest:
    kind = block.__struct_config__.tag
    if isinstance(block, ImageBlock | DocumentBlock):
        message = f"`{field}` must not be of type {kind!r}: this model reads text only."
    else:
        message = f"`{field}` must not be of type {kind!r} in the content of {place!r}."
    return InvalidRequest(message, field=field)
