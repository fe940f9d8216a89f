"""Tool calls: how a model writes them, what it may write, and how it is told of the tools.

Every request with tools is held to a grammar, so a call is always in its model's form and its arguments are valid
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
from inference.engine.sampling.grammars import MAX_GRAMMAR, json_grammar

MAX_TOOLS = 128
MAX_CALLS = 32  # in one answer
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CHOICES = ("none", "auto", "required")
COMBINING = {"anyOf", "oneOf", "$ref", "not", "if", "dependentSchemas"}
OPENING = {"additionalProperties", "patternProperties", "unevaluatedProperties"}
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class ToolForm:
    """How calls are written: `begin`, calls with `between` among them, `end`. `between` None: one call at most.

    A call is {"name": "...", KEY: {...}}. marker: what of `begin` tells that calls follow; "" where they are the
    whole message.
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
    """How one request uses tools. marker_id: the control token that the form's marker is, if it is one."""

    form: ToolForm
    tools: tuple[Tool, ...]
    grammar: str
    marker_id: int | None


TAGS = ToolForm("<tool_call>", "<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>")
MISTRAL = ToolForm("[TOOL_CALLS]", "[TOOL_CALLS] [", ", ", "]")
LLAMA = ToolForm("", "", None, "", "parameters")


def form_of(template: str) -> ToolForm | None:
    """The form that a chat template teaches, as far as we know it; None: the template has no tools for us."""
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
    """Raises InvalidRequest naming `tools` or `tool_choice`."""
    names = [tool.name for tool in tools]
    bounds = (
        ("tools", len(tools) <= MAX_TOOLS, f"at most {MAX_TOOLS}"),
        ("tools", all(map(NAME.fullmatch, names)), "named with 1 to 64 letters, digits, underscores and hyphens"),
        ("tools", len(set(names)) == len(names), "named differently"),
        ("tools", not set(names) & set(CHOICES), f"named otherwise than {', '.join(CHOICES)}"),
        ("tools", sum(map(schema_length, tools)) <= MAX_GRAMMAR, f"shorter: {MAX_GRAMMAR} characters of parameters"),
        ("tool_choice", choice in (*CHOICES, *names), f"one of {', '.join(CHOICES)} and the tools' names"),
        ("tool_choice", bool(tools) or choice in ("none", "auto"), "`none` or `auto` where no tools are given"),
    )
    for name, good, expected in bounds:
        if not good:
            raise InvalidRequest(f"`{name}` must be {expected}.", parameter=name)


def schema_length(tool: Tool) -> int:
    """How many characters a tool's parameters have at least, as JSON."""
    return len(msgspec.json.encode(tool.parameters).decode()) if tool.parameters else 0


def grammar(form: ToolForm, tools: Sequence[Tool], choice: str, marker_id: int | None) -> str:
    """What may be written, in Lark. marker_id: the token that the marker is, where it is a control token."""
    named = [tool for tool in tools if choice in (*CHOICES, tool.name)]
    rules = [f"call: {' | '.join(f'call_{place}' for place in range(len(named)))}"]
    for place, tool in enumerate(named):
        rules.append(f'call_{place}: {_quoted(form.opening(tool.name))} arguments_{place} "}}"')
        rules.append(json_grammar(closed(tool.parameters or NO_ARGUMENTS), f"arguments_{place}"))
    more = choice in CHOICES and form.between is not None
    calls = f"call ({_quoted(form.between or '')} call){{0,{MAX_CALLS - 1}}}" if more else "call"
    rules.append(f"calls: {_sequence(form.begin.removeprefix(form.marker))} {calls} {_sequence(form.end)}")
    rules += _start(form, free=choice == "auto", marker_id=marker_id)
    return "\n".join(rules)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without room for properties that it does not name, where it does not speak of them.

    By JSON Schema they are welcome, but no function has a parameter for them, and a weak model makes them up until its
    tokens are used up. Schemas that add objects together stay as they are: closing a part would shut out the others.
    """
    if any(("properties" in one and COMBINING & one.keys()) or "allOf" in one for one in _schemas_in(schema)):
        return schema
    copy = deepcopy(schema)
    for one in _schemas_in(copy):
        if "properties" in one and not OPENING & one.keys():
            one["additionalProperties"] = False
    return copy


def _schemas_in(schema: object) -> Iterator[dict[str, Any]]:
    """The schema and all that it is made of."""
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


def _start(form: ToolForm, *, free: bool, marker_id: int | None) -> list[str]:
    marker = _sequence(form.marker) if marker_id is None else f"<[{marker_id}]>"
    if not free:
        return [f"start: {marker} calls"]
    if not form.marker:
        return ["start: calls | TEXT?", r"TEXT: /[^{](.|\n)*/"]
    if marker_id is not None:
        # What the letters of a marker begin would be read as a call, and nothing held it to its form.
        return [
            f"start: text ({marker} calls)?",
            "text: TEXT",
            "TEXT: ANY & ~OPENED",
            f"OPENED: ANY {_quoted(form.begin)} ANY",
            r"ANY: /(.|\n)*/",
        ]
    return ["start: text | lead calls", "text: TEXT", r"TEXT: /(.|\n)*/", f"lead[lazy]: TEXT {marker}"]


def _quoted(text: str) -> str:
    return json.dumps(text)


def _sequence(text: str) -> str:
    return _quoted(text) if text else ""


def tool_schemas(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as templates expect them."""
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


def as_template_message(message: Message) -> dict[str, Any]:
    """A message as templates expect it. Raises InvalidRequest when a call's arguments are no JSON object."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise InvalidRequest("The `arguments` of a tool call must be the text of a JSON object.", parameter="messages")
    return arguments


def without_tools(messages: Sequence[Message], tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The conversation for a template that knows no tools: they are described in the first message, and calls and
    answers are written out."""
    plain = [_written_out(message) for message in messages]
    if not tools:
        return plain
    if plain[0]["role"] == "system":
        return [{"role": "system", "content": f"{plain[0]['content']}\n\n{_described(tools)}"}, *plain[1:]]
    return [{"role": "system", "content": _described(tools)}, *plain]


def without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same for a template that takes no system message: it becomes the beginning of the user's."""
    system, first, *others = messages
    return [first | {"content": f"{system['content']}\n\n{first['content']}"}, *others]


def _written_out(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"}
    calls = [TAGS.opening(call.name) + json.dumps(_arguments(call)) + "}" for call in message.tool_calls]
    written = TAGS.begin + (TAGS.between or "").join(calls) + TAGS.end if calls else ""
    return {"role": message.role, "content": "\n".join(part for part in (message.content, written) if part)}


def _described(tools: Sequence[Tool]) -> str:
    listed = "\n".join(json.dumps(schema["function"], ensure_ascii=False) for schema in tool_schemas(tools))
    call = TAGS.opening("NAME") + "{...}}"
    return f"You may call these functions:\n{listed}\nTo call one, write:\n{TAGS.begin}{call}{TAGS.end}"
