"""Tools in the form of OpenAI's chat: definitions, calls, and pieces of streamed calls."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import Tool, ToolCallDelta
from inference.protocol.messages import ChatToolCall, FunctionCall, FunctionName, ToolCallId

FunctionKind = Annotated[Literal["function"], Meta(description="Kind of the tool.")]


class FunctionDefinition(Struct):
    """A function that the model may call."""

    name: FunctionName
    description: (
        Annotated[str, Meta(description="What the function does, for the model.", examples=["Places an order."])] | None
    ) = None
    parameters: Annotated[
        dict[str, Any] | None,
        Meta(description="JSON schema of the arguments, which calls always match. By default no arguments."),
    ] = None
    strict: Annotated[bool, Meta(description="No effect: calls always match the schema.", examples=[True])] | None = (
        None
    )


class ChatTool(Struct):
    """A tool; all tools are functions."""

    type: FunctionKind
    function: Annotated[FunctionDefinition, Meta(description="Function that the model may call.")]

    def to_engine(self) -> Tool:
        return Tool(self.function.name, self.function.description or "", self.function.parameters)


class NamedFunction(Struct):
    """The name of a function."""

    name: Annotated[str, Meta(description="Name of the function.", examples=["order"])]


class NamedToolChoice(Struct):
    """The tool that the model has to call."""

    type: FunctionKind
    function: Annotated[NamedFunction, Meta(description="Function that the model has to call.")]


ToolChoice = Literal["none", "auto", "required"] | NamedToolChoice


def engine_tool_choice(choice: ToolChoice | None) -> str:
    return choice.function.name if isinstance(choice, NamedToolChoice) else choice or "auto"


def join_tool_call_deltas(deltas: Iterable[ToolCallDelta]) -> list[ChatToolCall]:
    """Return the whole calls of streamed pieces."""
    calls: list[ChatToolCall] = []
    for delta in deltas:
        if delta.index == len(calls):
            calls.append(ChatToolCall(delta.id or "", FunctionCall(delta.name or "", "")))
        calls[delta.index].function.arguments += delta.arguments
    return calls


class FunctionCallDelta(Struct):
    """A piece of a function call."""

    arguments: Annotated[str, Meta(description="Further text of the arguments' JSON.", examples=['{"product":'])]
    name: FunctionName | UnsetType = UNSET


class ChatToolCallDelta(Struct):
    """A piece of a tool call; the first piece of a call has its id, type and name."""

    index: Annotated[int, Meta(description="Position of the call in the message, from 0.", examples=[0])]
    function: Annotated[FunctionCallDelta, Meta(description="Piece of the function call.")]
    id: ToolCallId | UnsetType = UNSET
    type: FunctionKind | UnsetType = UNSET


def chat_tool_call_deltas(deltas: Sequence[ToolCallDelta]) -> list[ChatToolCallDelta]:
    return [
        ChatToolCallDelta(delta.index, FunctionCallDelta(delta.arguments))
        if delta.id is None
        else ChatToolCallDelta(delta.index, FunctionCallDelta(delta.arguments, delta.name or ""), delta.id, "function")
        for delta in deltas
    ]
