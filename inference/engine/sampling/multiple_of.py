"""Limits of `multipleOf` in JSON schemas.

llguidance has a lexer state for each remainder of N and makes all of them at once, outside its own limits: 8000009
takes over a minute and 4 GB. Trailing zeros of a small N add few states. Where several schemas apply to one number, as
in `allOf`, N is their least common multiple.
"""

import json
import math
import re
from collections.abc import Collection

from inference.engine.errors import InvalidRequest

MAX_STATES = 100_000  # take 0.5 to 1 s
STATES_WITH_ZEROS = 1_000  # about, per unit of the number without its trailing zeros
MAX_MULTIPLE, MAX_DECIMALS = 300_000_000, 8  # llguidance overflows 32 bits beyond them
MULTIPLE_LIMIT = 2**32
COMBINING_KEYS = {"allOf", "anyOf", "oneOf", "$ref", "patternProperties"}
SCHEMA = re.compile(r"%json\s*")


def check_multiples(grammar: str, parameter: str) -> None:
    """Raise InvalidRequest if a JSON schema of a Lark grammar has a `multipleOf` beyond the limits."""
    values, may_combine = _multiples(grammar)
    integers = [_to_integer(value) for value in values]
    for value, (integer, decimals) in zip(values, integers, strict=True):
        if integer > MAX_MULTIPLE or decimals > MAX_DECIMALS:
            raise _invalid(
                parameter,
                f"{value:.15g} cannot be followed exactly: use an integer up to {MAX_MULTIPLE}, or one such as 0.01",
            )
    states = sum(_states(integer) for integer, _ in integers)
    if may_combine and len(integers) > 1:
        states = max(states, _combined_states(integers))
    if states > MAX_STATES:
        listed = ", ".join(f"{value:.15g}" for value in sorted(values))
        raise _invalid(parameter, f"{listed[:200]} would take too long to follow: use smaller ones, or fewer")


def _invalid(parameter: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"`{parameter}` cannot be used: `multipleOf` {reason}.", parameter=parameter)


def _multiples(grammar: str) -> tuple[set[float], bool]:
    """Return all values of `multipleOf`, and whether several may apply to one number."""
    values: set[float] = set()
    keys: set[str] = set()

    def visit(pairs: list[tuple[str, object]]) -> None:
        keys.update(key for key, _ in pairs)
        values.update(abs(value) for key, value in pairs if key == "multipleOf" and isinstance(value, float) and value)

    decoder = json.JSONDecoder(object_pairs_hook=visit, parse_int=float, parse_constant=lambda name: None, strict=False)
    end = 0
    while schema := SCHEMA.search(grammar, end):
        end = schema.end()
        try:
            _, end = decoder.raw_decode(grammar, end)
        except (ValueError, RecursionError):
            continue  # llguidance rejects it too, and says where the error is
    return values, not keys.isdisjoint(COMBINING_KEYS)


def _to_integer(value: float) -> tuple[int, int]:
    """Return the value without its decimal point, and its number of decimals.

    This repeats llguidance's arithmetic, by which 0.07 has too many decimals.
    """
    decimals = 0
    while value % 1 and decimals <= MAX_DECIMALS:
        value *= 10
        decimals += 1
    return int(min(value, MAX_MULTIPLE + 1)), decimals


def _states(integer: int) -> int:
    if integer <= MAX_STATES:
        return integer
    while integer % 10 == 0:
        integer //= 10
    return integer * STATES_WITH_ZEROS


def _combined_states(integers: Collection[tuple[int, int]]) -> int:
    """Return the number of states of the least common multiple.

    llguidance multiplies one value after the other, in any order, and every product has to fit into 32 bits.
    """
    max_decimals = max(decimals for _, decimals in integers)
    aligned = [integer * 10 ** (max_decimals - decimals) for integer, decimals in integers]
    multiple = math.lcm(*aligned)
    if multiple >= MULTIPLE_LIMIT:
        return MAX_STATES + 1
    products = (math.lcm(*aligned[:index], *aligned[index + 1 :]) * last for index, last in enumerate(aligned))
    return _states(multiple) if max(products) < MULTIPLE_LIMIT else MAX_STATES + 1
