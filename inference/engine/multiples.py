"""How much `multipleOf` of JSON schemas may ask for.

llguidance keeps a number to a multiple of N by a state for each remainder, and makes them all at once, outside its own
limits: of 8000009 in more than a minute and four gigabytes. Where schemas meet, as in `allOf`, N is the least common
multiple of theirs. Zeros at its end cost nothing.
"""

import json
import math
import re

from inference.engine.errors import InvalidRequest

MAX_STATES = 50_000  # 0.2 s; 0.7 where a schema has each of their divisors, too
MAX_DIGITS, MAX_DECIMALS = 300_000_000, 8  # llguidance counts in 32 bits, and wrongly beyond them
SCHEMA = re.compile(r"%json\s*")


def check_multiples(grammar: str, parameter: str) -> None:
    """Raises InvalidRequest if the JSON schemas of a Lark grammar ask for more."""
    states = 1
    for value in _multiples(grammar):
        digits, decimals = _digits(value)
        if digits > MAX_DIGITS or decimals > MAX_DECIMALS:
            raise _refused(parameter, value, "cannot be followed exactly: choose one of fewer digits, or leave it out")
        states = math.lcm(states, _without_zeros(digits))
        if states > MAX_STATES:
            told = (
                f"is too much, alone or with those before it: their least common multiple may be {MAX_STATES} at most"
            )
            raise _refused(parameter, value, told)


def _refused(parameter: str, value: float, told: str) -> InvalidRequest:
    return InvalidRequest(f"`{parameter}` cannot be used: `multipleOf` {value:.15g} {told}.", parameter=parameter)


def _multiples(grammar: str) -> list[float]:
    """Each value of `multipleOf`, wherever it stands."""
    found: list[float] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        found.extend(value for key, value in pairs if key == "multipleOf" and isinstance(value, float) and value > 0)

    decoder = json.JSONDecoder(object_pairs_hook=look, parse_int=float, strict=False)
    for schema in SCHEMA.finditer(grammar):
        try:
            decoder.raw_decode(grammar, schema.end())
        except (ValueError, RecursionError):
            continue  # llguidance takes it for no JSON either, and says where
    return found


def _digits(value: float) -> tuple[float, int]:
    """The value without its decimal point, and its decimals. As llguidance finds them, so 0.07 has too many."""
    decimals = 0
    while value % 1 and decimals <= MAX_DECIMALS:
        value *= 10
        decimals += 1
    return value, decimals


def _without_zeros(digits: float) -> int:
    number = int(digits)
    while number % 10 == 0:
        number //= 10
    return number
