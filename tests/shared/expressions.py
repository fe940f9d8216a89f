"""Texts for row I6, on which a backtracking regular expression would need minutes.

It finds the expressions of a package: constants, those in annotated types, and those in calls like `re.sub(r"...",
...)`.
"""

import ast
import os
import pkgutil
import re
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations, product
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple, get_origin

LENGTH = 100_000 if "WHOLE_COUNTS" in os.environ else 30_000  # of which a quadratic expression needs seconds, too
COMMON_CHARACTERS = ["a", "0", " ", "\t", "\n", "\x00"]
MAX_MATCH_SECONDS = (
    0.5  # ten times the allowed time, for slow machines; expressions that are not linear take many seconds
)
PROGRAM_MODULES = ("__main__", "fork_server")  # importing them runs them
GPU_MODULES = ".models.gpu."  # which import Triton, and that comes with torch for GPUs alone
ANCHORED_METHODS = {"match", "fullmatch"}


class Expression(NamedTuple):
    pattern: "re.Pattern[Any]"
    methods: set[str]


def expressions_of(*packages: ModuleType) -> dict[str, Expression]:
    return {name: found for package in packages for module in modules(package) for name, found in expressions(module)}


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if GPU_MODULES in found.name and find_spec("triton") is None:
            continue
        if not any(part in found.name for part in (".migrations", ".settings", *PROGRAM_MODULES)):
            yield import_module(found.name)


def expressions(module: ModuleType) -> Iterator[tuple[str, Expression]]:
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    for name, value in vars(module).items():
        if isinstance(value, re.Pattern):
            yield f"{module.__name__}.{name}", Expression(value, set(re.findall(rf"\b{name}\.(\w+)", source)))
        if get_origin(value) is Annotated:
            for pattern in filter(None, (getattr(meta, "pattern", None) for meta in value.__metadata__)):
                yield f"{module.__name__}.{name}", Expression(re.compile(pattern), {"search"})
    if re.search(r"\bre\.", source) is None:
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(ast.Name("re"), method), args=[ast.Constant(pattern), *_]):
                if method != "compile":
                    yield f"{module.__name__}:{node.lineno}", Expression(re.compile(pattern), {method})


def hostile_texts(expression: str, *, is_anchored: bool) -> Iterator[str]:
    """Yield long repetitions of one or two characters of the expression, with an end that cannot match.

    An expression that is searched at each character finds the same in two characters in the other order.
    """
    characters = sorted(set(re.sub(r"\w", "", expression)))
    for one in [*characters, *COMMON_CHARACTERS]:
        yield one * LENGTH + "\x01"
    pairs = product(characters, repeat=2) if is_anchored else combinations(characters, 2)
    for one, other in [*pairs, *((one, "a") for one in characters)]:
        yield (one + other) * (LENGTH // 2) + "\x01"


def max_match_seconds(expression: Expression) -> float:
    """Return the time that the worst of the hostile texts takes, in seconds of CPU time."""
    pattern, methods = expression
    is_anchored = bool(methods) and methods <= ANCHORED_METHODS
    longest = 0.0
    begins_once = is_anchored or "^" in str(pattern.pattern) or r"\A" in str(pattern.pattern)
    for text in hostile_texts(str(pattern.pattern), is_anchored=begins_once):
        for start in ("", "a"):
            subject = start + text if isinstance(pattern.pattern, str) else (start + text).encode()
            began = time.thread_time()
            if is_anchored:
                pattern.match(subject)
                pattern.fullmatch(subject)
            else:
                for _ in pattern.finditer(subject):
                    pass
            longest = max(longest, time.thread_time() - began)
    return longest
