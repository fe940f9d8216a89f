"""Lengths for strings of a JSON schema that have none, so that one of them cannot take the tokens of all."""

from typing import Any

CHARACTERS_PER_TOKEN = 4
MIN_LENGTH = 32
MAX_LENGTH = 2048  # longer strings keep their length: counting to it costs more than it saves
LENGTH_STEP = 32  # or each `max_tokens` would compile a grammar of its own
MANY = 3  # strings that an array stands for
# Keywords whose values are data, and those whose schemas hold for a string that another one bounds, or does not hold.
UNCHANGED = frozenset({"const", "default", "enum", "examples", "allOf", "if", "not"})
# Those that bound a string already, or may.
BOUNDS = frozenset({
    "const", "enum", "format", "maxLength", "minLength", "pattern",
    "allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef",
})  # fmt: skip


def with_string_bounds(schema: dict[str, object], max_tokens: int) -> dict[str, object]:
    """Return a schema whose unbounded strings have a fair share of `max_tokens` each. A single string has no bound."""
    try:
        count = _count(schema)
    except RecursionError:  # the parser of JSON takes deeper ones; the grammar's compiler refuses them by name
        return schema
    length = CHARACTERS_PER_TOKEN * max_tokens // max(1, count) // LENGTH_STEP * LENGTH_STEP
    if count < 2 or length > MAX_LENGTH:
        return schema
    bounded: dict[str, object] = _bounded(schema, max(MIN_LENGTH, length))
    return bounded


def _is_unbounded(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return (kind == "string" or (isinstance(kind, list) and "string" in kind)) and not BOUNDS & schema.keys()


def _count(value: object) -> int:
    if isinstance(value, list):
        return sum(map(_count, value))
    if not isinstance(value, dict):
        return 0
    inner = sum(_count(each) * (MANY if key == "items" else 1) for key, each in value.items() if key not in UNCHANGED)
    return inner + _is_unbounded(value)


def _bounded(value: Any, length: int) -> Any:
    if isinstance(value, list):
        return [_bounded(each, length) for each in value]
    if not isinstance(value, dict):
        return value
    inner = {key: each if key in UNCHANGED else _bounded(each, length) for key, each in value.items()}
    return inner | ({"maxLength": length} if _is_unbounded(value) else {})
