"""Checks of an OpenAPI document that both projects share: each yields what is missing for a client developer."""

from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]

MAX_SUMMARY_WORDS = 8
MIN_DESCRIPTION_WORDS = 6
COMPOSITIONS = ("allOf", "oneOf", "anyOf")

Document = dict[str, Any]
Operations = Iterable[tuple[str, dict[str, Any]]]
Problems = Iterator[str]


def all_operations(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each operation with its name, such as `get /models`."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def response_errors(document: Document, name: str, body: Any) -> list[str]:
    """Return how the body of a response with status 200 differs from the schema of the operation `name`."""
    method, path = name.split()
    schema = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
    return schema_errors(document, schema, body)


def schema_errors(document: Document, schema: dict[str, Any], value: Any) -> list[str]:
    """Return how a value differs from a schema of the document."""
    validator = jsonschema.Draft202012Validator(schema | {"components": document["components"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def text_problems(operations: Operations) -> Problems:
    """Yield the operations whose summary is missing or too long, or whose description is no full sentence."""
    for name, operation in operations:
        summary, description = operation.get("summary", ""), operation.get("description", "")
        if not 1 <= len(summary.split()) <= MAX_SUMMARY_WORDS:
            yield f"{name}: the summary {summary!r} has not 1 to {MAX_SUMMARY_WORDS} words"
        if len(description.split()) < MIN_DESCRIPTION_WORDS or not description.endswith("."):
            yield f"{name}: no description in full sentences"


class FieldChecks:
    """Checks of parameters and of the fields of bodies; each component is reported once.

    decimal_fields: names of the fields that may be numbers with a fraction; all others are integers.
    """

    def __init__(self, document: Document, *, decimal_fields: Iterable[str]) -> None:
        self._components = document["components"]["schemas"]
        self._decimal_fields = frozenset(decimal_fields)
        self._seen: set[tuple[str, bool]] = set()

    def parameter_problems(self, operations: Operations) -> Problems:
        """Yield the parameters without a description, type, bounds or example."""
        for name, operation in operations:
            for parameter in operation.get("parameters", ()):
                texts = {key: parameter[key] for key in ("description", "example") if key in parameter}
                yield from self._field(parameter["schema"] | texts, f"{name} {parameter['name']}", is_sent=True)

    def body_problems(self, operations: Operations) -> Problems:
        """Yield the fields of bodies without a description, type or example, or bounds where clients send them."""
        for name, operation in operations:
            for content in operation.get("requestBody", {}).get("content", {}).values():
                yield from self._fields(content["schema"], f"{name} body", is_sent=True)
            for status, response in operation["responses"].items():
                for content in response.get("content", {}).values():
                    yield from self._fields(content["schema"], f"{name} {status}", is_sent=False)

    def _fields(self, schema: dict[str, Any], where: str, *, is_sent: bool) -> Problems:
        for part in _parts(schema):
            if "$ref" in part:
                yield from self._component(part["$ref"].rpartition("/")[2], is_sent=is_sent)
            for name, field in part.get("properties", {}).items():
                yield from self._field(field, f"{where}.{name}", is_sent=is_sent)
                yield from self._fields(field, f"{where}.{name}", is_sent=is_sent)
            if "items" in part:
                yield from self._fields(part["items"], f"{where}[]", is_sent=is_sent)

    def _component(self, name: str, *, is_sent: bool) -> Problems:
        if (name, is_sent) not in self._seen:
            self._seen.add((name, is_sent))
            yield from self._fields(self._components[name], name, is_sent=is_sent)

    def _field(self, field: dict[str, Any], where: str, *, is_sent: bool) -> Problems:
        parts = list(_parts(field))
        types = set().union(*map(_types, parts))
        if not field.get("description", "").strip().endswith("."):
            yield f"{where}: no description"
        if not types and not {"$ref", "enum", "const", *COMPOSITIONS} & field.keys():
            yield f"{where}: no type"
        is_plain = types - {"null"} and not types & {"object", "array"}
        if is_plain and not _has_any(parts, {"$ref", "enum", "const", "example", "examples"}):
            yield f"{where}: no example"
        if is_sent:
            for part in parts:
                yield from _bounds_problems(part, where)
        if "number" in types and where.split()[-1].rpartition(".")[2] not in self._decimal_fields:
            yield f"{where}: an integer with the type number, or a new decimal field"


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for name in COMPOSITIONS:
        for part in schema.get(name, ()):
            yield from _parts(part)


def _has_any(parts: Iterable[dict[str, Any]], keywords: set[str]) -> bool:
    return any(keywords & part.keys() for part in parts)


def _bounds_problems(field: dict[str, Any], where: str) -> Problems:
    types = _types(field)
    if _has_any([field], {"enum", "const"}):
        return
    if types & {"integer", "number"} and not (
        {"minimum", "exclusiveMinimum"} & field.keys() and {"maximum", "exclusiveMaximum"} & field.keys()
    ):
        yield f"{where}: no minimum and maximum"
    if "string" in types and not {"maxLength", "pattern", "format"} & field.keys():
        yield f"{where}: no maxLength, pattern or format"
    if "array" in types and "maxItems" not in field:
        yield f"{where}: no maxItems"


def _types(schema: dict[str, Any]) -> set[str]:
    types = schema.get("type", ())
    return {types} if isinstance(types, str) else set(types)
