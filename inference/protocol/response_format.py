"""What a text can be asked to look like: `response_format`, `regex` and `grammar`, the same on every surface."""

import json
from typing import Annotated, Any

from msgspec import Meta, Struct

from inference.engine import ConstraintKind, InvalidRequest, OutputConstraint

Regex = Annotated[str, Meta(max_length=65_536, description="The text matches this in whole; no look-around.")]
Grammar = Annotated[str, Meta(max_length=65_536, description="The text is a sentence of this grammar, in Lark.")]


class ResponseFormatText(Struct, tag_field="type", tag="text"):
    """Any text."""


class ResponseFormatJsonObject(Struct, tag_field="type", tag="json_object"):
    """The text is a JSON object."""


class JsonSchemaDefinition(Struct):
    """A JSON schema. It is always kept to in whole: `name`, `description` and `strict` change nothing."""

    schema: dict[str, Any]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormatJsonSchema(Struct, tag_field="type", tag="json_schema"):
    """The text is JSON that is valid against a schema."""

    json_schema: JsonSchemaDefinition


ResponseFormat = ResponseFormatText | ResponseFormatJsonObject | ResponseFormatJsonSchema


def output_constraint(
    response_format: ResponseFormat | None, regex: str | None, grammar: str | None
) -> OutputConstraint | None:
    """What the engine is asked for. InvalidRequest when more than one form is asked for."""
    forms = []
    if isinstance(response_format, ResponseFormatJsonObject):
        forms.append(OutputConstraint(ConstraintKind.JSON_OBJECT))
    if isinstance(response_format, ResponseFormatJsonSchema):
        forms.append(OutputConstraint(ConstraintKind.JSON_SCHEMA, json.dumps(response_format.json_schema.schema)))
    if regex is not None:
        forms.append(OutputConstraint(ConstraintKind.REGEX, regex))
    if grammar is not None:
        forms.append(OutputConstraint(ConstraintKind.GRAMMAR, grammar))
    if len(forms) > 1:
        message = "response_format, regex and grammar exclude each other: send one of them."
        raise InvalidRequest(message, field="response_format" if regex is None or grammar is None else "regex")
    return forms[0] if forms else None
