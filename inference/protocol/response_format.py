"""Structured output: `response_format`, `regex` and `grammar`, the same on every surface."""

import json
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
        description="Context-free grammar in Lark's syntax that the whole text matches.",
        examples=['start: "oak" | "brass"'],
    ),
]


class ResponseFormatText(Struct, tag_field="type", tag="text"):
    """Any text."""


class ResponseFormatJsonObject(Struct, tag_field="type", tag="json_object"):
    """A JSON object."""


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


def output_constraint(
    response_format: ResponseFormat | None, regex: str | None, grammar: str | None
) -> OutputConstraint | None:
    """Return the engine's constraint. Raise InvalidRequest if more than one is given."""
    constraints = []
    if isinstance(response_format, ResponseFormatJsonObject):
        constraints.append(OutputConstraint(ConstraintKind.JSON_OBJECT))
    if isinstance(response_format, ResponseFormatJsonSchema):
        schema = json.dumps(response_format.json_schema.schema)
        constraints.append(OutputConstraint(ConstraintKind.JSON_SCHEMA, schema))
    if regex is not None:
        constraints.append(OutputConstraint(ConstraintKind.REGEX, regex))
    if grammar is not None:
        constraints.append(OutputConstraint(ConstraintKind.GRAMMAR, grammar))
    if len(constraints) > 1:
        message = "`response_format`, `regex` and `grammar` exclude each other: send one of them."
        raise InvalidRequest(message, field="response_format" if regex is None or grammar is None else "regex")
    return constraints[0] if constraints else None
