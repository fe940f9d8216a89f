"""Messages of a conversation in the form of OpenAI's chat."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.engine import Message, ToolCall

FunctionName = Annotated[
    str,
    Meta(
        pattern="^[a-zA-Z0-9_-]{1,64}$",
        description="Name of the function: letters, digits, `_` and `-`, at most 64.",
        examples=["order"],
    ),
]
ToolCallId = Annotated[str, Meta(description="Id of the tool call.", examples=["call_5b8d1f0c9a7e4d2b"])]


class FunctionCall(Struct):
    """A function's name with its arguments as JSON text."""

    name: FunctionName
    arguments: Annotated[
        str, Meta(description="Arguments as JSON text.", examples=['{"product": "lamp", "amount": 2}'])
    ]


class ChatToolCall(Struct):
    """A call that the model requests."""

    id: ToolCallId
    function: Annotated[FunctionCall, Meta(description="Function to call.")]
    type: Annotated[Literal["function"], Meta(description="Kind of the tool.")] = "function"

    def to_engine(self) -> ToolCall:
        return ToolCall(self.id, self.function.name, self.function.arguments)


class TextContentPart(Struct):
    """A part of a message's content. Images, sound and files are refused: the models read text."""

    type: Annotated[
        str, Meta(description="Kind of the part: only `text`.", examples=["text"], extra_json_schema={"enum": ["text"]})
    ]
    text: Annotated[str, Meta(description="Text of the part.", examples=["Describe a lamp."])] = ""

    def __post_init__(self) -> None:
        if self.type != "text":
            raise ValueError(f"This model reads text only: send parts of type `text`, not {self.type[:40]!r}")


class ChatMessage(Struct):
    """One message; `developer` is OpenAI's newer name for `system`."""

    role: Annotated[
        Literal["system", "developer", "user", "assistant", "tool"],
        Meta(description="Author of the message. `developer` is the same as `system`."),
    ]
    content: Annotated[
        str | list[TextContentPart] | None,
        Meta(
            description="Text of the message, or its parts. Only an assistant message with `tool_calls` may have none.",
            examples=["Describe a lamp."],
        ),
    ] = None
    tool_calls: Annotated[
        list[ChatToolCall] | None, Meta(description="Calls that this message of the assistant requested.")
    ] = None
    tool_call_id: (
        Annotated[
            str,
            Meta(description="Id of the call that this `tool` message answers.", examples=["call_5b8d1f0c9a7e4d2b"]),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if self.content is None and not self.tool_calls:
            raise ValueError("A message needs `content`, or `tool_calls` if it is an assistant's")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("Only an assistant's message can have `tool_calls`")
        if (self.tool_call_id is None) == (self.role == "tool"):
            raise ValueError("A `tool` message needs a `tool_call_id`, and no other message may have one")

    def to_engine(self) -> Message:
        parts = [TextContentPart("text", self.content)] if isinstance(self.content, str) else self.content or []
        return Message(
            "system" if self.role == "developer" else self.role,
            "".join(part.text for part in parts),
            tuple(call.to_engine() for call in self.tool_calls or ()),
            self.tool_call_id,
        )
