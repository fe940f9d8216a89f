"""Structured output: `response_format`, `regex` and `grammar`, the same on every surface."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from inference.engine import ConstraintKind, InvalidRequest, OutputConstraint

MAX_PATTERN_LENGTH = 65_536

Regex = Annotated[
    str,
    Meta(
        max_length=MAX_PATTERN_LENGTH,
        description="Regular expression that the whole text matches. Look-around is not supported.",
        examples=[" (oak|brass)\\."],
    ),
]
Grammar = Annotated[
    str,
    Meta(
        max_length=MAX_PATTERN_LENGTH,
        description="Context-free grammar in Lark's syntax, or in llama.cpp's GBNF, that the whole text matches.",
        examples=['start: "oak" | "brass"'],
    ),
]


class ResponseFormatText(Struct, tag_field="type", tag="text"):
    """Any text."""


class ResponseFormatJsonObject(Struct, tag_field="type", tag="json_object"):
    """A JSON object, which matches the schema if there is one."""

    schema: Annotated[dict[str, Any], Meta(description="JSON schema that the text matches.")] | None = None


class JsonSchemaDefinition(Struct):
    """A JSON schema, which the text always matches: `name`, `description` and `strict` have no effect."""

    schema: Annotated[dict[str, Any], Meta(description="JSON schema that the text matches.")]
    name: Annotated[str, Meta(description="Name of the schema. It has no effect.", examples=["order"])] | None = None
    description: (
        Annotated[str, Meta(description="Purpose of the schema. It has no effect.", examples=["An order"])] | None
    ) = None
    strict: (
        Annotated[bool, Meta(description="No effect: the text always matches the schema.", examples=[True])] | None
    ) = None


class ResponseFormatJsonSchema(Struct, tag_field="type", tag="json_schema"):
    """JSON that is valid against a schema."""

    json_schema: Annotated[JsonSchemaDefinition, Meta(description="Schema of the JSON.")]


ResponseFormat = ResponseFormatText | ResponseFormatJsonObject | ResponseFormatJsonSchema


def output_constraints(
    response_format: ResponseFormat | None, regex: str | None, grammar: str | None
) -> dict[str, OutputConstraint | None]:
    """Return the engine's constraints by the names of their fields."""
    return {
        "response_format": _format_constraint(response_format),
        "regex": None if regex is None else OutputConstraint(ConstraintKind.REGEX, regex),
        "grammar": None if grammar is None else OutputConstraint(ConstraintKind.GRAMMAR, grammar),
    }


def only_constraint(constraints: Mapping[str, OutputConstraint | None]) -> OutputConstraint | None:
    """Return the one constraint that is given, or None. Raise InvalidRequest if there are more."""
    given = {name: constraint for name, constraint in constraints.items() if constraint is not None}
    if len(given) > 1:
        names = " and ".join(f"`{name}`" for name in given)
        raise InvalidRequest(f"{names} exclude each other: send one of them.", field=next(iter(given)))
    return next(iter(given.values()), None)


def schema_constraint(schema: dict[str, Any] | str, parameter: str | None = None) -> OutputConstraint:
    """Return the constraint of a JSON schema, or of its text. parameter: the field's name, for errors."""
    definition = schema if isinstance(schema, str) else json.dumps(schema)
    return OutputConstraint(ConstraintKind.JSON_SCHEMA, definition, parameter)


def choice_constraint(choices: Sequence[str], parameter: str) -> OutputConstraint:
    """Return the constraint of a text that is one of these. parameter: the field's name, for errors."""
    alternatives = " | ".join(json.dumps(choice) for choice in choices)
    return OutputConstraint(ConstraintKind.GRAMMAR, f"start: {alternatives}", parameter)


def _format_constraint(response_format: ResponseFormat | None) -> OutputConstraint | None:
    if isinstance(response_format, ResponseFormatJsonObject):
        if response_format.schema is not None:
            return schema_constraint(response_format.schema)
        return OutputConstraint(ConstraintKind.JSON_OBJECT)
    if isinstance(response_format, ResponseFormatJsonSchema):
        return schema_constraint(response_format.json_schema.schema)
    return None
