"""Parse JSON values into wire structs, with an error that names the field."""

import re
from typing import Any, TypeVar

import msgspec

from inference.engine import InvalidRequest
from inference.protocol.parameters import CLIENT_PARAMETERS

Wire = TypeVar("Wire")

MAX_FIELD_NAME_LENGTH = 100
_MISSING_OR_UNKNOWN = re.compile(
    r"Object (?P<problem>missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL
)


def parse_struct(value: Any, kind: type[Wire], *, strict: bool = True) -> Wire:
    """Return the wire struct of parsed JSON.

    strict: refuse a bool for an int and "3" for 3; not for query strings.

    Raise InvalidRequest, which names the field in its message and in `details["field"]`.
    """
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _field_error(str(error), value) from None


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
