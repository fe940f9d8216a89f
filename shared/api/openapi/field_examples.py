"""Examples of single fields, from examples of whole bodies."""

from collections.abc import Iterator
from typing import Any

EMPTY_VALUES: tuple[Any, ...] = (None, "", [], {})


class FieldExamples:
    """Gives each field without an example the first value that an example of a whole body has for it."""

    def __init__(self, components: dict[str, Any]) -> None:
        self._components = components

    def add(self, schema: dict[str, Any], value: Any) -> None:
        """Add the values of an example to the fields of its schema."""
        if isinstance(value, list):
            for item in value:
                self.add(schema.get("items", {}), item)
        if isinstance(value, dict):
            for part in self._parts(schema):
                for name, field in part.get("properties", {}).items():
                    self._add_field(field, value.get(name))

    def _add_field(self, field: dict[str, Any], value: Any) -> None:
        if value in EMPTY_VALUES:
            return
        if is_plain(field) or not isinstance(value, dict | list):
            field.setdefault("example", value)
        self.add(field, value)

    def _parts(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the schemas with the properties of `schema`, references resolved."""
        if "$ref" in schema:
            yield from self._parts(self._components[schema["$ref"].rpartition("/")[2]])
        for name in ("allOf", "oneOf", "anyOf"):
            for part in schema.get(name, ()):
                yield from self._parts(part)
        yield schema


def is_plain(field: dict[str, Any]) -> bool:
    """Return whether the field is no object, array, union or reference."""
    return not {"$ref", "allOf", "oneOf", "anyOf", "items", "properties"} & field.keys()
