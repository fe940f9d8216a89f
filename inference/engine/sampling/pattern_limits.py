"""Limits of how many patterns a JSON schema applies to one string, by `allOf` and `$ref`.

llguidance intersects them all at once, outside its own limits: 12 take a second, 14 ten, and each further one doubles
the time.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeAlias

from inference.engine.errors import InvalidRequest
from inference.engine.sampling.multiple_of import SCHEMA

MAX_PATTERNS = 6
MAX_PATHS = 100_000  # of patterns: references may double them again and again
PATTERNS = ("pattern", "format")
ANY_ITEM = "*"
Paths: TypeAlias = Counter[tuple[str, ...]]  # numbers of patterns by the properties that lead to the string


def check_patterns(grammar: str, parameter: str) -> None:
    """Raise InvalidRequest if a JSON schema of a Lark grammar applies too many patterns to one string."""
    end = 0
    while found := SCHEMA.search(grammar, end):
        end = found.end()
        try:
            schema, end = json.JSONDecoder(strict=False).raw_decode(grammar, end)
            merged = _MergedPatterns(schema, parameter)
            for node in _merging_nodes(schema):
                merged.check(node)
        except (ValueError, RecursionError):
            continue  # llguidance rejects it too, and says where the error is


def _merging_nodes(value: object) -> Iterator[dict[str, Any]]:
    """Yield the schemas that apply others to the same value."""
    if isinstance(value, dict):
        if "allOf" in value or ("$ref" in value and len(value) > 1):
            yield value
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _merging_nodes(each)


class _MergedPatterns:
    """Counts the patterns of a schema's strings."""

    def __init__(self, root: Any, parameter: str) -> None:
        self._root, self._parameter = root, parameter
        self._referenced: dict[str, Paths] = {}
        self._paths = 0

    def check(self, schema: dict[str, Any]) -> None:
        """Raise InvalidRequest if the schemas that this one applies to a string have too many patterns."""
        count = max(self._count(schema).values(), default=0)
        if count > MAX_PATTERNS:
            raise self._invalid(f"applies {count} patterns and formats to one string, and at most {MAX_PATTERNS}")

    def _invalid(self, reason: str) -> InvalidRequest:
        message = f"`{self._parameter}` cannot be used: its JSON schema {reason} are allowed."
        return InvalidRequest(message, parameter=self._parameter)

    def _count(self, schema: Any) -> Paths:
        found: Paths = Counter()
        if not isinstance(schema, dict):
            return found
        found[()] = sum(key in schema for key in PATTERNS)
        for each in _list(schema.get("allOf")):
            found += self._count(each)
        for key in ("anyOf", "oneOf"):
            alternatives: Paths = Counter()
            for each in _list(schema.get(key)):
                alternatives |= self._count(each)
            found += alternatives
        if isinstance(reference := schema.get("$ref"), str):
            found += self._count_referenced(reference)
        for name, child in _children(schema):
            for path, count in self._count(child).items():
                found[(name, *path)] += count
        self._paths += len(found)
        if self._paths > MAX_PATHS:
            raise self._invalid(f"repeats patterns more than {MAX_PATHS} times by `$ref`, and no more")
        return found

    def _count_referenced(self, reference: str) -> Paths:
        if reference not in self._referenced:
            self._referenced[reference] = Counter()  # within itself
            self._referenced[reference] = self._count(self._resolved(reference))
        return self._referenced[reference]

    def _resolved(self, reference: str) -> Any:
        """Return the schema that a reference names, or None for one that llguidance refuses."""
        value = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, list):
                value = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
            else:
                value = value.get(name) if isinstance(value, dict) else None
        return value


def _children(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas of properties and items with their names."""
    for key in ("properties", "patternProperties"):
        if isinstance(named := schema.get(key), dict):
            yield from named.items()
    for key in ("additionalProperties", "items"):
        yield ANY_ITEM, schema.get(key)
    yield from ((str(place), child) for place, child in enumerate(_list(schema.get("prefixItems"))))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
