"""Parse JSON values into wire structs, with an error that names the field."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from inference.engine import InvalidRequest
from inference.protocol.parameters import CLIENT_PARAMETERS

Wire = TypeVar("Wire")
# Fields whose effect this server does not support, with the neutral values that it accepts beside null.
UnsupportedFields = Mapping[str, tuple[object, ...]]

MAX_FIELD_NAME_LENGTH = 100
_MISSING_OR_UNKNOWN = re.compile(
    r"Object (?P<problem>missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL
)


def parse_struct(value: Any, kind: type[Wire], *, strict: bool = True) -> Wire:
    """Return the wire struct of parsed JSON.

    strict: refuse a bool for an int and "3" for 3; not for query strings. 3.0 is 3 where an integer is meant.

    Raise InvalidRequest, which names the field in its message and in `details["field"]`.
    """
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        message = str(error)
    if "got `float`" in message:
        try:
            return msgspec.convert(_integral_as_integers(value), kind, strict=strict)
        except msgspec.ValidationError as error:
            message = str(error)
    raise _field_error(message, value)


def drop_neutral_fields(value: Mapping[str, Any], unsupported: UnsupportedFields, prefix: str = "") -> dict[str, Any]:
    """Return the fields without those that are not supported and are null or have one of their neutral values.

    prefix: of the fields' names in errors. Raise InvalidRequest, which names the field, for another value.
    """
    supported = {}
    for field, content in value.items():
        if field not in unsupported:
            supported[field] = content
        elif content is not None and not any(is_same(content, neutral) for neutral in unsupported[field]):
            name = f"{prefix}{field}"[:MAX_FIELD_NAME_LENGTH]
            raise InvalidRequest(f"`{name}` is not supported. Leave it out.", field=name)
    return supported


def is_same(value: object, other: object) -> bool:
    """Return whether both are equal, where true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _integral_as_integers(value: Any) -> Any:
    """Return the value with integers for floats such as 10.0: JSON does not distinguish them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _integral_as_integers(inner) for name, inner in value.items()}
    return [_integral_as_integers(inner) for inner in value] if isinstance(value, list) else value


def _field_error(message: str, value: Any) -> InvalidRequest:
    # msgspec reports a wrong key at `key` in the field that has it; the error names that field.
    problem, has_path, path = message.replace(" - at `key` in `$", " - at `$").rpartition(" - at `$")
    problem, field = (problem, path.rstrip("`").lstrip(".")) if has_path else (message, "")
    if match := _MISSING_OR_UNKNOWN.fullmatch(problem):
        field = f"{field}.{match['field']}".lstrip(".")[:MAX_FIELD_NAME_LENGTH]
        if match["problem"] == "missing required":
            return InvalidRequest(f"`{field}` is required.", field=field)
        return InvalidRequest(
            f"`{field}` is not a field of this request. Remove it or correct its spelling.", field=field
        )
    if not field:
        return InvalidRequest(f"The body is not valid: {problem}.")
    name = field.partition("[")[0]
    if name in CLIENT_PARAMETERS and isinstance(value, dict) and name in value:
        return InvalidRequest(CLIENT_PARAMETERS[name].error_message(value[name]), field=field)
    hint = " The documentation lists the accepted values." if "enum value" in problem else ""
    return InvalidRequest(f"`{field}` is not valid: {problem[0].lower()}{problem[1:]}.{hint}", field=field)
