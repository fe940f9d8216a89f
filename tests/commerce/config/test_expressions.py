"""Row I6: no regular expression of the shop, or of what it shares, takes longer for a hostile text than its length.

One that goes back over its text would need minutes for some of these, and is ended by the clock.
"""

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from types import ModuleType
from typing import Any

import pytest

import commerce
import shared

LENGTH = 100_000
ANYWHERE = ["a", "0", " ", "\t", "\n", "\x00"]


def expressions() -> Iterator[tuple[str, "re.Pattern[str] | re.Pattern[bytes]"]]:
    """Those that a module has by name."""
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield f"{module.__name__}.{name}", value


def modules() -> Iterator[ModuleType]:
    for package in (commerce, shared):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations" not in found.name and ".settings" not in found.name:
                yield import_module(found.name)


def hostile_texts(expression: str) -> Iterator[str]:
    """One of its characters, or two in turn, again and again; at the end, what cannot match."""
    marks = sorted(set(re.sub(r"\w", "", expression)))
    for one in [*marks, *ANYWHERE]:
        yield one * LENGTH + "\x01"
    for one, other in product(marks, [*marks, "a"]):
        yield (one + other) * (LENGTH // 2) + "\x01"


FOUND = dict(expressions())


def test_i6_the_expressions_are_found():
    assert len(FOUND) > 20
    assert {"shared.api.query._WHOLE_NUMBER", "commerce.descriptions.plain_text._TAG"} <= FOUND.keys()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", sorted(FOUND))
def test_i6_a_hostile_text_is_read_in_time(name: str):
    expression: re.Pattern[Any] = FOUND[name]
    is_text = isinstance(expression.pattern, str)
    for text in hostile_texts(str(expression.pattern)):
        for start in ("", "a"):
            whole = start + text if is_text else (start + text).encode()
            if str(expression.pattern).endswith(r"\Z"):
                assert expression.match(whole) is None  # they are about all of a text, and begin at its beginning
            else:
                assert sum(1 for _ in expression.finditer(whole)) <= len(whole)
