"""Tools on the wire, in the form of OpenAI's chat: what may be called, what was called, and pieces of it."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import Tool, ToolCall, ToolCallDelta

FunctionName = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]


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


class FunctionChoice(Struct):
    """Which function."""

    name: str


class NamedToolChoice(Struct):
    """The tool that has to be called."""

    type: Literal["function"]
    function: FunctionChoice


ToolChoice = Literal["none", "auto", "required"] | NamedToolChoice


def tool_choice(choice: ToolChoice | None) -> str:
    return choice.function.name if isinstance(choice, NamedToolChoice) else choice or "auto"


class CalledFunction(Struct):
    """A function's name and its arguments as JSON text."""

    name: FunctionName
    arguments: str


class ChatToolCall(Struct):
    """A call that the model asks for."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"

    def call(self) -> ToolCall:
        return ToolCall(self.id, self.function.name, self.function.arguments)


def whole_calls(deltas: Iterable[ToolCallDelta]) -> list[ChatToolCall]:
    """What the pieces add up to."""
    calls: list[ChatToolCall] = []
    for delta in deltas:
        if delta.index == len(calls):
            calls.append(ChatToolCall(delta.id or "", CalledFunction(delta.name or "", "")))
        calls[delta.index].function.arguments += delta.arguments
    return calls


class FunctionDelta(Struct):
    """A piece of a call's function."""

    arguments: str
    name: str | UnsetType = UNSET


class ChatToolCallDelta(Struct):
    """A piece of the call number `index`; id, type and name are in its first."""

    index: int
    function: FunctionDelta
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET


def call_deltas(deltas: Sequence[ToolCallDelta]) -> list[ChatToolCallDelta]:
    return [
        ChatToolCallDelta(delta.index, FunctionDelta(delta.arguments))
        if delta.id is None
        else ChatToolCallDelta(delta.index, FunctionDelta(delta.arguments, delta.name or ""), delta.id, "function")
        for delta in deltas
    ]
