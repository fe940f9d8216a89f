"""Tools of a response: functions and custom tools. The server runs no tools by itself."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import InvalidRequest, Tool
from inference.protocol.messages import FunctionName
from inference.protocol.openai.responses.items import CUSTOM_INPUT

MAX_TOOLS = 128
_TOOL_TYPES = ("function", "custom")
# Fields of tools that this server cannot follow, with the neutral values that it accepts beside null.
_UNSUPPORTED: Mapping[str, tuple[object, ...]] = {
    "allowed_callers": (["direct"],),
    "async": (False,),
    "defer_loading": (False,),
    "output_schema": (),
}

ToolDescription = Annotated[str, Meta(description="What the tool does, for the model.", examples=["Places an order."])]


class FunctionTool(Struct, tag_field="type", tag="function", kw_only=True):
    """A function that the model may call."""

    name: FunctionName
    parameters: Annotated[
        dict[str, Any] | None,
        Meta(description="JSON schema of the arguments, which calls always match. By default no arguments."),
    ] = None
    strict: Annotated[bool | None, Meta(description="No effect: calls always match the schema.", examples=[True])] = (
        None
    )
    description: ToolDescription | UnsetType | None = UNSET

    def to_engine(self) -> Tool:
        return Tool(self.name, self.description or "", self.parameters)


class TextInputFormat(Struct, tag_field="type", tag="text"):
    """Any text."""


class GrammarInputFormat(Struct, tag_field="type", tag="grammar"):
    """Text that matches a regular expression."""

    syntax: Annotated[
        Literal["regex", "lark"],
        Meta(description="Syntax of the definition. Only `regex` is supported.", examples=["regex"]),
    ]
    definition: Annotated[
        str, Meta(description="Regular expression that the whole input matches.", examples=["(oak|brass)"])
    ]


class CustomTool(Struct, tag_field="type", tag="custom", kw_only=True):
    """A tool that takes one text."""

    name: FunctionName
    description: ToolDescription | UnsetType | None = UNSET
    format: Annotated[
        TextInputFormat | GrammarInputFormat | UnsetType | None,
        Meta(description="Form of the input: any text by default."),
    ] = UNSET

    def to_engine(self) -> Tool:
        """Return the tool as a function with one argument, which is how models of this server call it."""
        text: dict[str, Any] = {"type": "string"}
        if isinstance(self.format, GrammarInputFormat):
            if self.format.syntax != "regex":
                message = "`tools.format.syntax` must be `regex` for a custom tool: `lark` is not supported."
                raise InvalidRequest(message, field="tools.format.syntax")
            text["pattern"] = f"^(?:{self.format.definition})$"
        schema = {
            "type": "object",
            "properties": {CUSTOM_INPUT: text},
            "required": [CUSTOM_INPUT],
            "additionalProperties": False,
        }
        return Tool(self.name, self.description or "", schema)


ResponseTool = FunctionTool | CustomTool


class NamedToolChoice(Struct):
    """The tool that the model has to call."""

    type: Annotated[Literal["function", "custom"], Meta(description="Kind of the tool.")]
    name: FunctionName


class AllowedTool(Struct):
    """A tool that the model may call."""

    type: Annotated[Literal["function", "custom"], Meta(description="Kind of the tool.")]
    name: FunctionName


class AllowedToolsChoice(Struct):
    """The tools that the model may call, of those that the request has."""

    type: Annotated[Literal["allowed_tools"], Meta(description="Kind of the choice.")]
    mode: Annotated[Literal["auto", "required"], Meta(description="Whether the model has to call one of them.")]
    tools: Annotated[
        list[AllowedTool], Meta(min_length=1, max_length=MAX_TOOLS, description="Tools that the model may call.")
    ]


class ResponseToolChoice(Struct, kw_only=True):
    """An object of `tool_choice`: a tool by `type` and `name`, or `allowed_tools` with `mode` and `tools`."""

    type: Annotated[
        Literal["function", "custom", "allowed_tools"],
        Meta(description="Kind of the choice: the tool to call, or the tools that may be called."),
    ]
    name: FunctionName | UnsetType = UNSET
    mode: (
        Annotated[Literal["auto", "required"], Meta(description="Only with `allowed_tools`: whether to call one.")]
        | UnsetType
    ) = UNSET
    tools: (
        Annotated[list[AllowedTool], Meta(min_length=1, max_length=MAX_TOOLS, description="Only with `allowed_tools`.")]
        | UnsetType
    ) = UNSET


ToolChoiceField = Literal["none", "auto", "required"] | ResponseToolChoice


def check_tools(value: object) -> None:
    """Raise InvalidRequest, which names the place, for tools and fields of tools that are not supported."""
    if not isinstance(value, list):
        return
    for place, tool in enumerate(value):
        if not isinstance(tool, Mapping):
            continue
        field = f"tools[{place}]"
        if tool.get("type") not in _TOOL_TYPES:
            message = (
                f"`{field}.type` is {str(tool.get('type'))[:100]!r}: this server runs no tools by itself. Send tools "
                "of the types function and custom, and run them in your program."
            )
            raise InvalidRequest(message, field=f"{field}.type")
        for name, neutral in _UNSUPPORTED.items():
            if tool.get(name) is not None and tool[name] not in neutral:
                raise InvalidRequest(f"`{field}.{name}` is not supported. Leave it out.", field=f"{field}.{name}")


def engine_tools(tools: Sequence[ResponseTool], choice: "ToolChoiceField | None") -> tuple[tuple[Tool, ...], str]:
    """Return the engine's tools and tool choice. Raise InvalidRequest for a choice of tools that are not there."""
    if not isinstance(choice, ResponseToolChoice):
        return tuple(tool.to_engine() for tool in tools), choice or "auto"
    names = {tool.name for tool in tools}
    if choice.type == "allowed_tools":
        if choice.tools is UNSET or choice.mode is UNSET:
            raise InvalidRequest(
                "`tool_choice` of the type `allowed_tools` needs `mode` and `tools`.", field="tool_choice"
            )
        allowed = {tool.name for tool in choice.tools}
        _require_known(allowed - names)
        return tuple(tool.to_engine() for tool in tools if tool.name in allowed), choice.mode
    if choice.name is UNSET:
        raise InvalidRequest("`tool_choice.name` is required.", field="tool_choice.name")
    _require_known({choice.name} - names)
    return tuple(tool.to_engine() for tool in tools), choice.name


def _require_known(missing: set[str]) -> None:
    if missing:
        message = (
            f"`tool_choice` names {min(missing)!r}, which is not in `tools`. Add it there, or choose another tool."
        )
        raise InvalidRequest(message, field="tool_choice")
