"""Schemas of fields, where msgspec's differ from what a client developer needs."""

from collections.abc import Iterator
from typing import Any

NULL = {"type": "null"}
_COMPOSITIONS = ("allOf", "oneOf", "anyOf")


def merge_null_types(schema: Any) -> None:
    """Turn every union of one plain type and null into one schema with both types, in place."""
    if isinstance(schema, list):
        for item in schema:
            merge_null_types(item)
    if not isinstance(schema, dict):
        return
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != NULL]
    if len(kinds) == 1 and NULL in schema["anyOf"] and {"type", "enum"} & kinds[0].keys():
        del schema["anyOf"]
        schema |= kinds[0] | schema
        if "type" in schema:
            schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    for value in list(schema.values()):
        merge_null_types(value)


def describe_tags(components: dict[str, Any]) -> None:
    """Describe the fields that name a struct's kind, which msgspec adds without a text."""
    for component in components.values():
        for field in component.get("properties", {}).values():
            if len(field.get("enum", ())) == 1:
                field.setdefault("description", f"Always `{field['enum'][0]}`.")


def complete_sent_fields(schema: dict[str, Any], components: dict[str, Any], *, max_body_bytes: int) -> None:
    """Add the limits that follow from the size of a body to strings and arrays without limits of their own."""
    for part in _sent_schemas(schema, components, set()):
        types = part.get("type", ())
        types = {types} if isinstance(types, str) else set(types)
        if "string" in types and not {"maxLength", "enum", "pattern", "format"} & part.keys():
            part["maxLength"] = max_body_bytes
        if "array" in types:
            part.setdefault("maxItems", max_body_bytes // 2)  # an item and its comma have at least two bytes


def _sent_schemas(schema: dict[str, Any], components: dict[str, Any], seen: set[str]) -> Iterator[dict[str, Any]]:
    yield schema
    parts = [part for name in _COMPOSITIONS for part in schema.get(name, ())]
    parts += schema.get("properties", {}).values()
    parts += [schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)]
    name = schema.get("$ref", "").rpartition("/")[2]
    if name and name not in seen:
        seen.add(name)
        parts.append(components[name])
    for part in parts:
        yield from _sent_schemas(part, components, seen)
