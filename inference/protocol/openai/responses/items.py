"""Items: what a response reads and writes. The same structs are sent by clients, stored and returned."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import InvalidRequest, Message, ToolCall
from inference.protocol.logprobs import ChatTokenLogprob
from inference.protocol.messages import FunctionName
from inference.protocol.parsing import parse_struct

MAX_INPUT_ITEMS = 2048
CUSTOM_INPUT = "input"  # the one argument of a custom tool, which engines know as a function

ItemId = Annotated[str, Meta(max_length=128, description="Id of the item.", examples=["msg_4f0c8d2e7b6a4915a3c1d0e2"])]
ItemStatus = Annotated[
    Literal["in_progress", "completed", "incomplete"],
    Meta(description="Whether the item is whole. An item that a limit cut off is `incomplete`."),
]
CallId = Annotated[str, Meta(max_length=128, description="Id of the call.", examples=["call_5b8d1f0c9a7e4d2b8c3f6a10"])]
Arguments = Annotated[str, Meta(description="Arguments as JSON text.", examples=['{"product": "lamp", "amount": 2}'])]
CustomInput = Annotated[str, Meta(description="Text that the model passes to the tool.", examples=["brass"])]


class InputTextPart(Struct, tag_field="type", tag="input_text"):
    """A text of a user, of a system message or of a tool."""

    text: Annotated[str, Meta(description="Text of the part.", examples=["Describe a lamp."])]


class OutputTextPart(Struct, tag_field="type", tag="output_text", kw_only=True):
    """A text that the model wrote."""

    text: Annotated[str, Meta(description="Generated text.", examples=["A quiet kettle."])]
    annotations: Annotated[list[dict[str, Any]], Meta(description="Always empty: there are no citations.")] = []
    logprobs: (
        Annotated[list[ChatTokenLogprob], Meta(description="Log probabilities of the tokens, if requested.")]
        | UnsetType
        | None
    ) = UNSET


class RefusalPart(Struct, tag_field="type", tag="refusal"):
    """A refusal, as other servers' models write it. The models of this server refuse in plain text."""

    refusal: Annotated[str, Meta(description="Text of the refusal.", examples=["I cannot do that."])]


ContentPart = InputTextPart | OutputTextPart | RefusalPart


class MessageItem(Struct, tag_field="type", tag="message", kw_only=True):
    """A message of a user, of a system or of the assistant."""

    role: Annotated[
        Literal["user", "assistant", "system", "developer"],
        Meta(description="Author of the message. `developer` is the same as `system`."),
    ]
    content: Annotated[
        str | list[ContentPart],
        Meta(description="Text of the message, or its parts. Only texts are supported.", examples=["Describe a lamp."]),
    ]
    id: ItemId | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class FunctionCallItem(Struct, tag_field="type", tag="function_call", kw_only=True):
    """A call of a function that the model requests."""

    call_id: CallId
    name: FunctionName
    arguments: Arguments
    id: ItemId | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class FunctionCallOutputItem(Struct, tag_field="type", tag="function_call_output", kw_only=True):
    """The result of a function call, which a client sends."""

    call_id: CallId
    output: Annotated[
        str | list[InputTextPart], Meta(description="Result of the call, as text or as parts.", examples=["sold out"])
    ]
    id: ItemId | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class CustomToolCallItem(Struct, tag_field="type", tag="custom_tool_call", kw_only=True):
    """A call of a custom tool that the model requests."""

    call_id: CallId
    name: FunctionName
    input: CustomInput
    id: ItemId | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class CustomToolCallOutputItem(Struct, tag_field="type", tag="custom_tool_call_output", kw_only=True):
    """The result of a custom tool, which a client sends."""

    call_id: CallId
    output: Annotated[
        str | list[InputTextPart], Meta(description="Result of the call, as text or as parts.", examples=["sold out"])
    ]
    id: ItemId | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class ReasoningSummary(Struct, tag_field="type", tag="summary_text"):
    """A part of a summary of reasoning."""

    text: Annotated[str, Meta(description="Text of the summary.", examples=["Looked for a copper kettle."])]


class ReasoningText(Struct, tag_field="type", tag="reasoning_text"):
    """A part of the reasoning itself."""

    text: Annotated[str, Meta(description="Text of the reasoning.", examples=["The kettle has a copper base."])]


class ReasoningItem(Struct, tag_field="type", tag="reasoning", kw_only=True):
    """Reasoning before an answer. In an input it is accepted and not shown to the model."""

    summary: Annotated[list[ReasoningSummary], Meta(description="Summary of the reasoning.")]
    content: Annotated[list[ReasoningText], Meta(description="Text of the reasoning.")] | UnsetType | None = UNSET
    encrypted_content: (
        Annotated[str, Meta(description="Reasoning of another server. It has no effect.", examples=["gAAAAABo"])]
        | UnsetType
        | None
    ) = UNSET
    id: ItemId | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class CompactionItem(Struct, tag_field="type", tag="compaction", kw_only=True):
    """A summary of a conversation, made by `POST /v1/responses/compact` of this server."""

    encrypted_content: Annotated[
        str, Meta(description="Summary, encrypted with a key of this server.", examples=["gAAAAABo"])
    ]
    id: ItemId | UnsetType | None = UNSET


Item = (
    MessageItem
    | FunctionCallItem
    | FunctionCallOutputItem
    | CustomToolCallItem
    | CustomToolCallOutputItem
    | ReasoningItem
    | CompactionItem
)

_ID_PREFIXES: dict[type[Any], str] = {
    MessageItem: "msg_",
    FunctionCallItem: "fc_",
    FunctionCallOutputItem: "fco_",
    CustomToolCallItem: "ctc_",
    CustomToolCallOutputItem: "ctco_",
    ReasoningItem: "rs_",
    CompactionItem: "cmp_",
}
_ITEM_TYPES = (
    "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning",
    "compaction",
)  # fmt: skip
_PART_TYPES = ("input_text", "output_text", "refusal")


def item_prefix(item: Item) -> str:
    """Return how the ids of items of this type begin."""
    return _ID_PREFIXES[type(item)]


def with_item_types(value: object, field: str) -> object:
    """Return a list of items with the type `message` where it was left out.

    Raise InvalidRequest, which names the place, for a type that is not supported.
    """
    if not isinstance(value, list):
        return value
    return [_with_type(item, f"{field}[{place}]") for place, item in enumerate(value)]


def _with_type(item: object, field: str) -> object:
    if not isinstance(item, Mapping):
        return item
    kind = item.get("type") or "message"
    _require_type(kind, _ITEM_TYPES, field, "items")
    for name in ("content", "output"):
        if kind != "reasoning" and isinstance(parts := item.get(name), list):
            for place, part in enumerate(parts):
                if isinstance(part, Mapping):
                    _require_type(part.get("type"), _PART_TYPES, f"{field}.{name}[{place}]", "parts")
    return {**item, "type": kind}


def _require_type(kind: object, known: Sequence[str], field: str, noun: str) -> None:
    if kind not in known:
        message = (
            f"`{field}.type` is {str(kind)[:100]!r}, which this server does not support: {noun} must be of the types "
            f"{', '.join(known)}."
        )
        raise InvalidRequest(message, field=f"{field}.type")


def parse_items(value: Sequence[Any]) -> list[Item]:
    """Return stored items."""
    return parse_struct(list(value), list[Item])


def part_text(content: "str | Iterable[ContentPart]") -> str:
    """Return the text of a message or of a tool's output."""
    if isinstance(content, str):
        return content
    return "".join(part.refusal if isinstance(part, RefusalPart) else part.text for part in content)


def engine_messages(items: Iterable[Item]) -> tuple[Message, ...]:
    """Return the conversation of these items. Calls belong to the assistant's message that precedes them.

    Compactions must have been replaced by messages: only their server can read them.
    """
    messages: list[Message] = []
    for item in items:
        if isinstance(item, MessageItem):
            role = "system" if item.role == "developer" else item.role
            messages.append(Message(role, part_text(item.content)))
        elif isinstance(item, FunctionCallItem):
            _add_call(messages, ToolCall(item.call_id, item.name, item.arguments))
        elif isinstance(item, CustomToolCallItem):
            _add_call(messages, ToolCall(item.call_id, item.name, json.dumps({CUSTOM_INPUT: item.input})))
        elif isinstance(item, FunctionCallOutputItem | CustomToolCallOutputItem):
            messages.append(Message("tool", part_text(item.output), tool_call_id=item.call_id))
    return tuple(messages)


def _add_call(messages: list[Message], call: ToolCall) -> None:
    if messages and messages[-1].role == "assistant":
        last = messages.pop()
        messages.append(Message("assistant", last.content, (*last.tool_calls, call)))
    else:
        messages.append(Message("assistant", "", (call,)))
