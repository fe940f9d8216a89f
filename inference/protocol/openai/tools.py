"""Tools on the wire, in the form of OpenAI's chat: what may be called, what was called, and pieces of it."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from inference.engine import Tool, ToolCallDelta
from inference.protocol.messages import ChatToolCall, FunctionCall, FunctionName


class FunctionDefinition(Struct):
    """A function that may be called. `parameters`: a JSON schema of its arguments, always kept to (`strict`)."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatTool(Struct):
    """A tool; there are functions only."""

    type: Literal["function"]
    function: FunctionDefinition

    def tool(self) -> Tool:
        return Tool(self.function.name, self.function.description or "", self.function.parameters)


class NamedFunction(Struct):
    """Which function."""

    name: str


class NamedToolChoice(Struct):
    """The tool that has to be called."""

    type: Literal["function"]
    function: NamedFunction


ToolChoice = Literal["none", "auto", "required"] | NamedToolChoice


def engine_tool_choice(choice: ToolChoice | None) -> str:
    return choice.function.name if isinstance(choice, NamedToolChoice) else choice or "auto"


def join_tool_call_deltas(deltas: Iterable[ToolCallDelta]) -> list[ChatToolCall]:
    """What the pieces add up to."""
    calls: list[ChatToolCall] = []
    for delta in deltas:
        if delta.index == len(calls):
            calls.append(ChatToolCall(delta.id or "", FunctionCall(delta.name or "", "")))
        calls[delta.index].function.arguments += delta.arguments
    return calls


class FunctionCallDelta(Struct):
    """A piece of a call's function."""

    arguments: str
    name: str | UnsetType = UNSET


class ChatToolCallDelta(Struct):
    """A piece of the call number `index`; id, type and name are in its first."""

    index: int
    function: FunctionCallDelta
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET


def chat_tool_call_deltas(deltas: Sequence[ToolCallDelta]) -> list[ChatToolCallDelta]:
    return [
        ChatToolCallDelta(delta.index, FunctionCallDelta(delta.arguments))
        if delta.id is None
        else ChatToolCallDelta(delta.index, FunctionCallDelta(delta.arguments, delta.name or ""), delta.id, "function")
        for delta in deltas
    ]
