"""Parse JSON values into wire structs."""

import re
from typing import Any, TypeVar

import msgspec

from inference.engine import InvalidRequest

Wire = TypeVar("Wire")


_NAMED = re.compile(r"Object (?P<how>missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL)


def parse_struct(value: Any, kind: type[Wire], *, strict: bool = True) -> Wire:
    """Make a wire struct of parsed JSON, strictly: no bool for an int, no "3" for 3. Not so of a query string.

    InvalidRequest names the field that is wrong, also as `details["field"]`.
    """
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _named(str(error)) from None


def _named(complaint: str) -> InvalidRequest:
    # A wrong key is told as the field that holds it.
    what, found, place = complaint.replace(" - at `key` in `$", " - at `$").rpartition(" - at `$")
    what, where = (what, place.rstrip("`").lstrip(".")) if found else (complaint, "")
    if named := _NAMED.fullmatch(what):
        field = f"{where}.{named['field']}".lstrip(".")[:100]
        if named["how"] == "missing required":
            return InvalidRequest(f"{field} is required.", field=field)
        return InvalidRequest(
            f"{field} is not a field of this request: remove it or correct its spelling.", field=field
        )
    if not where:
        return InvalidRequest(f"The body is wrong: {what}.")
    hint = " The docs list what it may be." if "enum value" in what else ""
    return InvalidRequest(f"{where} is wrong: {what[0].lower()}{what[1:]}.{hint}", field=where)
