"""`deploy/run check`: format, lint, words, types, import contracts and migrations."""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from steps.packages import PYTHON, VENV, prepare_venv
from steps.terminal import StepError, run, say


def check(arguments: argparse.Namespace) -> None:
    """Run every check, one per processor at a time, and then raise StepError with the output of those that failed."""
    prepare_venv(["dev"], cuda=arguments.cuda)
    tools = VENV / "bin"
    packages = ["commerce", "inference", "shared", "deploy"]
    checks: list[tuple[str, list[Any], str]] = []
    for project in ("inference", "commerce"):  # the longest first
        mypy = [tools / "mypy", "--cache-dir", f".mypy_cache/{project}"]
        checks.append((f"types of {project}", [*mypy, project, "shared", f"manage_{project}.py"], project))
    checks += [
        ("format", [tools / "ruff", "format", "--check", ".", "deploy/run"], ""),
        ("lint", [tools / "ruff", "check", ".", "deploy/run"], ""),
        ("words", [PYTHON, "deploy/steps/wording.py", *packages, "tests"], ""),
        ("security lint", [tools / "bandit", "-c", "pyproject.toml", "-q", "-ll", "-r", *packages], ""),
        ("import contracts", [tools / "lint-imports"], ""),
    ]
    for project in ("commerce", "inference"):
        manage = [PYTHON, f"manage_{project}.py"]
        checks += [
            (f"missing migrations of {project}", [*manage, "makemigrations", "--check", "--dry-run"], project),
            (f"system checks of {project}", [*manage, "check", "--fail-level", "WARNING"], project),
        ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = pool.map(lambda each: run_check(*each), checks)
    if failures := list(filter(None, outputs)):
        raise StepError("\n\n".join(failures))
    say("All checks passed.")


def run_check(what: str, command: Sequence[Any], project: str) -> str:
    """Print a line with the time of a check. Return its output if it failed, else an empty string."""
    env = os.environ | ({"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.test"} if project else {})
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as home:
            run(command, env=env | {"STOA_HOME": home}, what=what)
    except StepError as failure:
        say(f"  Checking {what} ... failed")
        return str(failure)
    say(f"  Checking {what} ... {time.monotonic() - began:.1f} s")
    return ""
