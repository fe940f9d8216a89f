"""Messages of a conversation, in the form of OpenAI's chat."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.engine import Message, ToolCall

FunctionName = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]


class FunctionCall(Struct):
    """A function's name and its arguments as JSON text."""

    name: FunctionName
    arguments: str


class ChatToolCall(Struct):
    """A call that the model asks for."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"

    def call(self) -> ToolCall:
        return ToolCall(self.id, self.function.name, self.function.arguments)


class TextContentPart(Struct):
    """A piece of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(Struct):
    """One message; `developer` is OpenAI's newer name for `system`."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextContentPart] | None = None
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
        parts = [TextContentPart("text", self.content)] if isinstance(self.content, str) else self.content or []
        return Message(
            "system" if self.role == "developer" else self.role,
            "".join(part.text for part in parts),
            tuple(call.call() for call in self.tool_calls or ()),
            self.tool_call_id,
        )
