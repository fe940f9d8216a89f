"""Lint of the words: `python deploy/steps/wording.py PATH...` prints the places that break one of two rules.

A docstring begins with a verb or a noun, never with a relative word, so that its sentence has a subject and a verb.
A bound is called MAX_ or MIN_, as everywhere else.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

RELATIVE_OPENING = re.compile(
    r"\W*(who|whom|whose|whoever|what|whatever|where|wherever|which|whichever|how|of|that|those)\b", re.I
)
BOUND_NAME = re.compile(r"_*(MOST|LONGEST|LARGEST|LEAST|SHORTEST|SMALLEST)(_|$)")
SKIPPED_FOLDERS = {"migrations", "__pycache__"}


def python_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_file():
            yield path
        else:
            yield from (file for file in sorted(path.rglob("*.py")) if not SKIPPED_FOLDERS & set(file.parts))


def find_problems(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the description of each broken rule in a module's source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            if opening := RELATIVE_OPENING.match(docstring):
                line = node.body[0].lineno
                yield line, f'a docstring begins with "{opening[1]}": begin with a verb, or a noun for a class'
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and BOUND_NAME.match(node.id):
            yield node.lineno, f"{node.id} is a bound: call it MAX_... or MIN_..."


def main(arguments: Sequence[str]) -> int:
    problems = [
        f"{path}:{line}: {problem}"
        for path in python_files([Path(argument) for argument in arguments])
        for line, problem in sorted(find_problems(path.read_text(encoding="utf-8")))
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
