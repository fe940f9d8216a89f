"""Tool calls: the syntax in which a model writes them, its grammar, and the description of tools in the prompt.

A grammar constrains every request with tools. So calls always have the model's syntax, with arguments that are valid
against the tool's schema. Text before a call is free.
"""

import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import msgspec

from inference.engine.errors import InvalidRequest
from inference.engine.requests import Message, Tool, ToolCall
from inference.engine.sampling.grammars import MAX_GRAMMAR_LENGTH, json_grammar

MAX_TOOLS = 128
MAX_CALLS = 32  # in one choice
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CHOICES = ("none", "auto", "required")
COMBINING_KEYS = {"anyOf", "oneOf", "$ref", "not", "if", "dependentSchemas"}
ADDITIONAL_KEYS = {"additionalProperties", "patternProperties", "unevaluatedProperties"}
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class ToolSyntax:
    """The syntax of tool calls: `begin`, calls separated by `between`, `end`. A call is {"name": "...", KEY: {...}}.

    marker: the part of `begin` that announces calls; "" if calls are the whole message.
    between: None if a message has one call at most.
    """

    marker: str
    begin: str
    between: str | None
    end: str
    key: str = "arguments"

    def opening(self, name: str) -> str:
        return f'{{"name": "{name}", "{self.key}": '


@dataclass(frozen=True)
class ToolUse:
    """Tools of one request with their grammar. marker_id: the token id of the marker, if it is a control token."""

    syntax: ToolSyntax
    tools: tuple[Tool, ...]
    grammar: str
    marker_id: int | None


TAGS = ToolSyntax("<tool_call>", "<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>")
MISTRAL = ToolSyntax("[TOOL_CALLS]", "[TOOL_CALLS] [", ", ", "]")
LLAMA = ToolSyntax("", "", None, "", "parameters")


def detect_tool_syntax(template: str) -> ToolSyntax | None:
    """Return the syntax that a chat template uses, or None if it has no tools or another syntax."""
    if not re.search(r"\btools\b", template):
        return None
    if "<tool_call>" in template and "<function=" not in template:
        return TAGS
    if "[TOOL_CALLS]" in template and "[ARGS]" not in template:
        return MISTRAL
    if '"parameters": ' in template and "<|python_tag|>" in template:
        return LLAMA
    return None


def check_tools(tools: Sequence[Tool], choice: str) -> None:
    """Raise InvalidRequest that names `tools` or `tool_choice`."""
    names = [tool.name for tool in tools]
    schema_lengths = sum(map(schema_length, tools))
    bounds = (
        ("tools", len(tools) <= MAX_TOOLS, f"at most {MAX_TOOLS}, not {len(tools)}"),
        ("tools", all(map(NAME.fullmatch, names)), "named with 1 to 64 letters, digits, underscores and hyphens"),
        ("tools", len(set(names)) == len(names), "named differently"),
        ("tools", not set(names) & set(CHOICES), f"named otherwise than {', '.join(CHOICES)}"),
        ("tools", schema_lengths <= MAX_GRAMMAR_LENGTH, f"shorter: {MAX_GRAMMAR_LENGTH} characters of parameters"),
        ("tool_choice", choice in (*CHOICES, *names), f"one of {', '.join(CHOICES)} and the tools' names"),
        ("tool_choice", bool(tools) or choice in ("none", "auto"), "`none` or `auto` without `tools`"),
    )
    for name, is_valid, expected in bounds:
        if not is_valid:
            raise InvalidRequest(f"`{name}` must be {expected}.", parameter=name)


def schema_length(tool: Tool) -> int:
    """Return the minimum number of characters of a tool's parameters as JSON."""
    return len(msgspec.json.encode(tool.parameters).decode()) if tool.parameters else 0


def grammar(
    syntax: ToolSyntax, tools: Sequence[Tool], choice: str, marker_id: int | None, *, allows_several: bool = True
) -> str:
    """Return the Lark grammar of a choice that may or must call tools.

    marker_id: as in `ToolUse`. allows_several: the choice may have several calls, unless it has to call a named tool.
    """
    callable_tools = [tool for tool in tools if choice in (*CHOICES, tool.name)]
    rules = [f"call: {' | '.join(f'call_{index}' for index in range(len(callable_tools)))}"]
    for index, tool in enumerate(callable_tools):
        rules.append(f'call_{index}: {_quoted(syntax.opening(tool.name))} arguments_{index} "}}"')
        rules.append(json_grammar(close_schema(tool.parameters or NO_ARGUMENTS), f"arguments_{index}"))
    allows_several = allows_several and choice in CHOICES and syntax.between is not None
    calls = f"call ({_quoted(syntax.between or '')} call){{0,{MAX_CALLS - 1}}}" if allows_several else "call"
    rules.append(f"calls: {_sequence(syntax.begin.removeprefix(syntax.marker))} {calls} {_sequence(syntax.end)}")
    rules += _start(syntax, allows_text=choice == "auto", marker_id=marker_id)
    return "\n".join(rules)


def close_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with `additionalProperties` false wherever it is not set.

    JSON Schema allows additional properties, but no function has parameters for them, and a weak model generates them
    until its tokens are used up. Schemas that combine objects are unchanged: closing one part would exclude the others.
    """
    if any(("properties" in one and COMBINING_KEYS & one.keys()) or "allOf" in one for one in _schemas_in(schema)):
        return schema
    copy = deepcopy(schema)
    for one in _schemas_in(copy):
        if "properties" in one and not ADDITIONAL_KEYS & one.keys():
            one["additionalProperties"] = False
    return copy


def _schemas_in(schema: object) -> Iterator[dict[str, Any]]:
    """Yield a schema and all its parts."""
    if not isinstance(schema, dict):
        return
    yield schema
    for name, value in schema.items():
        if name in ("properties", "$defs", "definitions") and isinstance(value, dict):
            parts = list(value.values())
        elif name in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            parts = value
        else:
            parts = [value] if name in ("items", "additionalProperties", "not", "if", "then", "else") else []
        for part in parts:
            yield from _schemas_in(part)


def _start(syntax: ToolSyntax, *, allows_text: bool, marker_id: int | None) -> list[str]:
    marker = _sequence(syntax.marker) if marker_id is None else f"<[{marker_id}]>"
    if not allows_text:
        return [f"start: {marker} calls"]
    if not syntax.marker:
        return ["start: calls | TEXT?", r"TEXT: /[^{](.|\n)*/"]
    if marker_id is not None:
        # The parser would read the marker's letters as a call, which the grammar does not constrain.
        return [
            f"start: text ({marker} calls)?",
            "text: TEXT",
            "TEXT: ANY & ~OPENED",
            f"OPENED: ANY {_quoted(syntax.begin)} ANY",
            r"ANY: /(.|\n)*/",
        ]
    return ["start: text | lead calls", "text: TEXT", r"TEXT: /(.|\n)*/", f"lead[lazy]: TEXT {marker}"]


def _quoted(text: str) -> str:
    return json.dumps(text)


def _sequence(text: str) -> str:
    return _quoted(text) if text else ""


def tool_schemas(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return the tools as chat templates expect them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters or NO_ARGUMENTS,
            },
        }
        for tool in tools
    ]


def template_message(message: Message, *, wraps_text: bool = False) -> dict[str, Any]:
    """Return a message as chat templates expect it.

    A call's arguments are an object, or their text if it is no JSON object: `max_tokens` may have cut it.
    wraps_text: make that text the value of an object's key, for templates that read arguments one by one.
    """
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call, wraps_text)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _arguments(call: ToolCall, wraps_text: bool) -> dict[str, Any] | str:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if isinstance(arguments, dict):
        return arguments
    return {"arguments": call.arguments} if wraps_text else call.arguments


def tools_as_text(messages: Sequence[Message], tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return a conversation for a template without tools: the system message describes them, and calls are text."""
    plain = [_text_message(message) for message in messages]
    if not tools:
        return plain
    if plain[0]["role"] == "system":
        return [{"role": "system", "content": f"{plain[0]['content']}\n\n{_description(tools)}"}, *plain[1:]]
    return [{"role": "system", "content": _description(tools)}, *plain]


def merge_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation for a template without system messages: the first user message begins with it."""
    system, first, *others = messages
    return [first | {"content": f"{system['content']}\n\n{first['content']}"}, *others]


def _text_message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"}
    calls = [f"{TAGS.opening(call.name)}{_arguments_text(call)}}}" for call in message.tool_calls]
    calls_text = TAGS.begin + (TAGS.between or "").join(calls) + TAGS.end if calls else ""
    return {"role": message.role, "content": "\n".join(part for part in (message.content, calls_text) if part)}


def _arguments_text(call: ToolCall) -> str:
    arguments = _arguments(call, wraps_text=False)
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _description(tools: Sequence[Tool]) -> str:
    listed = "\n".join(json.dumps(schema["function"], ensure_ascii=False) for schema in tool_schemas(tools))
    call = TAGS.opening("NAME") + "{...}}"
    return f"You may call these functions:\n{listed}\nTo call one, write:\n{TAGS.begin}{call}{TAGS.end}"
