"""`deploy/run check`: format, lint, words, types, import contracts and migrations."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from steps.packages import PYTHON, VENV, prepare_venv
from steps.terminal import StepError, run, say, step


def check(arguments: argparse.Namespace) -> None:
    """Run every check, and then raise StepError with the output of those that failed."""
    prepare_venv(["dev"], cuda=arguments.cuda)
    tools = VENV / "bin"
    packages = ["commerce", "inference", "shared", "deploy"]
    checks: list[tuple[str, list[Any], str]] = [
        ("format", [tools / "ruff", "format", "--check", ".", "deploy/run"], ""),
        ("lint", [tools / "ruff", "check", ".", "deploy/run"], ""),
        ("words", [PYTHON, "deploy/steps/wording.py", *packages, "tests"], ""),
        ("security lint", [tools / "bandit", "-c", "pyproject.toml", "-q", "-ll", "-r", *packages], ""),
        ("import contracts", [tools / "lint-imports"], ""),
    ]
    for project in ("commerce", "inference"):
        manage = [PYTHON, f"manage_{project}.py"]
        checks += [
            (f"types of {project}", [tools / "mypy", project, "shared", f"manage_{project}.py"], project),
            (f"missing migrations of {project}", [*manage, "makemigrations", "--check", "--dry-run"], project),
            (f"system checks of {project}", [*manage, "check", "--fail-level", "WARNING"], project),
        ]
    failures = [failure for what, command, project in checks if (failure := run_check(what, command, project))]
    if failures:
        raise StepError("\n\n".join(failures))
    say("All checks passed.")


def run_check(what: str, command: Sequence[Any], project: str) -> str:
    """Return the output of a check that failed; an empty string if it passed."""
    env = os.environ | ({"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.test"} if project else {})
    try:
        with tempfile.TemporaryDirectory() as home, step(f"Checking {what}"):
            run(command, env=env | {"STOA_HOME": home}, what=what)
    except StepError as failure:
        return str(failure)
    return ""
