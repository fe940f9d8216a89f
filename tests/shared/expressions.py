"""Row I6: texts on which a regular expression that goes back over its text would need minutes.

Of a package those that it has by name, those of its types, and those that stand in calls like `re.sub(r"...", ...)`.
"""

import ast
import pkgutil
import re
import time
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple, get_origin

LENGTH = 100_000
ANYWHERE = ["a", "0", " ", "\t", "\n", "\x00"]
LONGEST_S = 0.5  # a tenth of it is allowed; the rest is for slow machines. What is not linear takes many seconds
PROGRAMS = ("__main__", "fork_server")  # they run when they are imported
FROM_THE_START = {"match", "fullmatch"}


class Expression(NamedTuple):
    pattern: "re.Pattern[Any]"
    methods: set[str]


def expressions_of(*packages: ModuleType) -> dict[str, Expression]:
    return {name: found for package in packages for module in modules(package) for name, found in expressions(module)}


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not any(part in found.name for part in (".migrations", ".settings", *PROGRAMS)):
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
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(ast.Name("re"), method), args=[ast.Constant(pattern), *_]):
                if method != "compile":
                    yield f"{module.__name__}:{node.lineno}", Expression(re.compile(pattern), {method})


def hostile_texts(expression: str) -> Iterator[str]:
    """One of its characters, or two in turn, again and again; at the end, what cannot match."""
    marks = sorted(set(re.sub(r"\w", "", expression)))
    for one in [*marks, *ANYWHERE]:
        yield one * LENGTH + "\x01"
    for one, other in product(marks, [*marks, "a"]):
        yield (one + other) * (LENGTH // 2) + "\x01"


def longest_reading(expression: Expression) -> float:
    """How long the worst of the hostile texts takes, in seconds of this thread."""
    pattern, methods = expression
    longest = 0.0
    for text in hostile_texts(str(pattern.pattern)):
        for start in ("", "a"):
            whole = start + text if isinstance(pattern.pattern, str) else (start + text).encode()
            began = time.thread_time()
            if methods and methods <= FROM_THE_START:
                pattern.match(whole)
                pattern.fullmatch(whole)
            else:
                for _ in pattern.finditer(whole):
                    pass
            longest = max(longest, time.thread_time() - began)
    return longest
