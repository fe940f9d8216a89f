"""The parameters of a generation with their bounds, the same for every surface, and the one way into a wire struct."""

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from inference.engine import InvalidRequest

Wire = TypeVar("Wire")

MaxTokens = Annotated[int, Meta(ge=1, le=2**31 - 1, description="At most so many tokens; within the model's context.")]
Temperature = Annotated[float, Meta(ge=0, le=2, description="0 is greedy.")]
TopP = Annotated[float, Meta(ge=0, le=1, description="The smallest set of tokens with this probability; 1 is off.")]
TopK = Annotated[int, Meta(ge=0, le=1000, description="The k most probable tokens only; 0 is off.")]
RepeatPenalty = Annotated[float, Meta(gt=0, le=2, description="Looks at prompt and output; 1 means no penalty.")]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description="The same seed gives the same text.")]
Choices = Annotated[int, Meta(ge=1, le=8, description="So many texts for the same prompt.")]
Timeout = Annotated[float, Meta(ge=1, le=600, description="Seconds until the last token; past it the code is TIMEOUT.")]
Priority = Annotated[int, Meta(ge=-10, le=10, description="Higher first; above 0 needs the right to manage models.")]
StopSequence = Annotated[str, Meta(min_length=1, max_length=256)]
StopSequences = Annotated[list[StopSequence], Meta(max_length=16, description="Generation ends before any of these.")]

_NAMED = re.compile(r"Object (?P<how>missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL)


def parse(value: Any, kind: type[Wire], *, strict: bool = True) -> Wire:
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
