"""How large `multipleOf` in JSON schemas may be.

llguidance keeps a number to a multiple of N by a state for each remainder, and makes them all at once, outside its own
limits: of 8000009 in more than a minute and four gigabytes. Zeros at the end of a small N make few more. Where schemas
meet, as in `allOf`, N is the least common multiple of theirs.
"""

import json
import math
import re
from collections.abc import Collection

from inference.engine.errors import InvalidRequest

MOST_STATES = 100_000  # take half a second, or a whole one
STATES_WITH_ZEROS = 1_000  # for each of the number before them, about
LARGEST, MOST_DECIMALS = 300_000_000, 8  # llguidance counts in 32 bits, and wrongly beyond them
TOO_LARGE = 2**32
MEETING = {"allOf", "anyOf", "oneOf", "$ref", "patternProperties"}
SCHEMA = re.compile(r"%json\s*")


def check_multiples(grammar: str, parameter: str) -> None:
    """Raises InvalidRequest where the JSON schemas of a Lark grammar ask for more."""
    values, may_meet = _multiples(grammar)
    wholes = [_whole(value) for value in values]
    for value, (whole, decimals) in zip(values, wholes, strict=True):
        if whole > LARGEST or decimals > MOST_DECIMALS:
            told = f"{value:.15g} cannot be followed exactly: use a whole number up to {LARGEST}, or one such as 0.01"
            raise _refused(parameter, told)
    needed = sum(_states(whole) for whole, _ in wholes)
    if may_meet and len(wholes) > 1:
        needed = max(needed, _states_together(wholes))
    if needed > MOST_STATES:
        told = ", ".join(f"{value:.15g}" for value in sorted(values))
        raise _refused(parameter, f"{told[:200]} would take too long to follow: use smaller ones, or fewer")


def _refused(parameter: str, told: str) -> InvalidRequest:
    return InvalidRequest(f"`{parameter}` cannot be used: `multipleOf` {told}.", parameter=parameter)


def _multiples(grammar: str) -> tuple[set[float], bool]:
    """Each value of `multipleOf`, wherever it stands, and whether several may hold for one number."""
    values: set[float] = set()
    keys: set[str] = set()

    def look(pairs: list[tuple[str, object]]) -> None:
        keys.update(key for key, _ in pairs)
        values.update(abs(value) for key, value in pairs if key == "multipleOf" and isinstance(value, float) and value)

    decoder = json.JSONDecoder(object_pairs_hook=look, parse_int=float, parse_constant=lambda name: None, strict=False)
    end = 0
    while schema := SCHEMA.search(grammar, end):
        end = schema.end()
        try:
            _, end = decoder.raw_decode(grammar, end)
        except (ValueError, RecursionError):
            continue  # llguidance takes it for no JSON either, and says where
    return values, not keys.isdisjoint(MEETING)


def _whole(value: float) -> tuple[int, int]:
    """The value without its decimal point, and its decimals. As llguidance finds them, so 0.07 has too many."""
    decimals = 0
    while value % 1 and decimals <= MOST_DECIMALS:
        value *= 10
        decimals += 1
    return int(min(value, LARGEST + 1)), decimals


def _states(whole: int) -> int:
    if whole <= MOST_STATES:
        return whole
    while whole % 10 == 0:
        whole //= 10
    return whole * STATES_WITH_ZEROS


def _states_together(wholes: Collection[tuple[int, int]]) -> int:
    """Of their least common multiple, which llguidance finds one by one: each product on the way has to fit 32 bits."""
    most = max(decimals for _, decimals in wholes)
    aligned = [whole * 10 ** (most - decimals) for whole, decimals in wholes]
    least = math.lcm(*aligned)
    if least >= TOO_LARGE:
        return MOST_STATES + 1
    products = (math.lcm(*aligned[:place], *aligned[place + 1 :]) * last for place, last in enumerate(aligned))
    return _states(least) if max(products) < TOO_LARGE else MOST_STATES + 1
