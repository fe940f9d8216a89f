"""`test`, `check` and `bench`: what says whether Stoa is as it should be."""

import argparse
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from steps.packages import PYTHON, VENV, prepare_venv
from steps.terminal import ROOT, Failed, run, say, step

NOT_RUN = 86  # the exit code of tests/services.py where a server is missing


@dataclass(frozen=True)
class TestRun:
    """One call of pytest. `settings`: of which project; none for tests that use all of Stoa from outside."""

    name: str
    paths: list[str]
    options: list[str]
    settings: str = ""

    def command(self, paths: Sequence[str], more: Sequence[str]) -> list[str]:
        django = [f"--ds={self.settings}.config.settings.test"] if self.settings else ["-p", "no:django"]
        return [str(PYTHON), "-m", "pytest", *django, *TWICE, *self.options, *more, *paths]

    def chosen(self, wanted: Sequence[str]) -> list[str]:
        """Of the wanted paths those that are ours; all of ours when none is wanted."""
        if not wanted:
            return [path for path in self.paths if (ROOT / path).exists()]
        return [path for path in wanted if any(Path(path.split("::")[0]).is_relative_to(ours) for ours in self.paths)]


# Hundreds of tests start real processes and wait for them, and one in thousands waits too short on a busy machine. What
# fails is run once more and has to pass then; the end names it, so that it can be made steady.
TWICE = ["--reruns", "1", "-raR"]
# Three at once on two processors: much of their time they wait for servers that they have started. Each has a third of
# the files in one piece, so that few servers of a file are started twice, and helps the others when it is done.
SHARED_OUT = ["-n", "3", "--dist", "worksteal"]
ON_SQLITE = ["-p", "tests.services", "--database=sqlite", "--redis=valkey", *SHARED_OUT]
# Of what both projects share, with which settings it is matters here alone.
SETTINGS = [f"tests/shared/test_{part}.py" for part in ("production", "secret_files", "served_project", "variables")]
ON_POSTGRESQL = ["-p", "tests.services", "--database=postgresql", "--redis=redis", *SHARED_OUT]
TEST_RUNS = [
    TestRun(
        "the house and its faults",
        ["tests/test_architecture.py", "tests/test_m7_forbidden_calls.py", "tests/deploy", "tests/faults"],
        SHARED_OUT,
    ),
    TestRun("commerce on SQLite", ["tests/commerce", "tests/shared"], ON_SQLITE, "commerce"),
    TestRun("inference on SQLite", ["tests/inference", *SETTINGS], ON_SQLITE, "inference"),
    TestRun("commerce on PostgreSQL", ["tests/commerce", "tests/shared"], ON_POSTGRESQL, "commerce"),
    TestRun("inference on PostgreSQL", ["tests/inference"], ON_POSTGRESQL, "inference"),
    TestRun("all of Stoa from outside", ["tests/journeys", "tests/conformance"], []),
]


def test(arguments: argparse.Namespace) -> None:
    """Every run, one after the other, and a line for each at the end."""
    prepare_venv(["test"], cuda=arguments.cuda)
    wanted = [argument for argument in arguments.more if argument.startswith("tests")]
    more = [argument for argument in arguments.more if argument not in wanted]
    results = []
    for test_run in TEST_RUNS:
        if paths := test_run.chosen(wanted):
            say(f"\n{test_run.name}")
            results.append((test_run.name, *run_pytest(test_run.command(paths, more))))
    say()
    for name, code, last_line in results:
        say(f"  {name}: {'NOT RUN, see above' if code == NOT_RUN else last_line}")
    nothing_chosen = 5
    allowed = {0, NOT_RUN, nothing_chosen} if arguments.more else {0, NOT_RUN}
    if not results or any(code not in allowed for _, code, _ in results):
        raise Failed("Tests failed." if results else "No tests are there.")


def run_pytest(command: Sequence[str]) -> tuple[int, str]:
    """Exit code and closing line; all of it is shown as it comes."""
    last_line = ""
    # They start hundreds of processes: what these import is compiled once, whatever the machine's environment says.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # What a shell starts in the background ignores Ctrl-C, and so would all that the tests start and send it to.
    heeds_ctrl_c = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=heeds_ctrl_c
    ) as pytest:
        for line in pytest.stdout:
            print(line, end="", flush=True)
            last_line = line.strip(" =\n") or last_line
    return pytest.returncode, last_line


def check(arguments: argparse.Namespace) -> None:
    """All that can be judged without running the tests; every judge is heard before it fails."""
    prepare_venv(["dev"], cuda=arguments.cuda)
    tools = VENV / "bin"
    checks: list[tuple[str, list[Any], str]] = [
        ("format", [tools / "ruff", "format", "--check", ".", "deploy/run"], ""),
        ("lint", [tools / "ruff", "check", ".", "deploy/run"], ""),
        (
            "security lint",
            [tools / "bandit", "-c", "pyproject.toml", "-q", "-ll", "-r", "commerce", "inference", "shared", "deploy"],
            "",
        ),
        ("import contracts", [tools / "lint-imports"], ""),
    ]
    for project in ("commerce", "inference"):
        manage = [PYTHON, f"manage_{project}.py"]
        checks += [
            (f"types of {project}", [tools / "mypy", project, "shared", f"manage_{project}.py"], project),
            (f"missing migrations of {project}", [*manage, "makemigrations", "--check", "--dry-run"], project),
            (f"system checks of {project}", [*manage, "check", "--fail-level", "WARNING"], project),
        ]
    failures = [failure for what, command, project in checks if (failure := one_check(what, command, project))]
    if failures:
        raise Failed("\n\n".join(failures))
    say("All is well.")


def one_check(what: str, command: Sequence[Any], project: str) -> str:
    """What it has to say, or nothing."""
    env = os.environ | ({"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.test"} if project else {})
    try:
        with tempfile.TemporaryDirectory() as home, step(f"Checking {what}"):
            run(command, env=env | {"STOA_HOME": home}, what=what)
    except Failed as failure:
        return str(failure)
    return ""


def bench(arguments: argparse.Namespace) -> None:
    """One benchmark of tests/benchmarks, which prints its table and can write it as JSON."""
    folder = ROOT / "tests" / "benchmarks"
    names = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    if arguments.name not in names:
        raise Failed(f"There is no benchmark {arguments.name!r}. There are: {', '.join(names) or 'none'}.")
    prepare_venv(["bench"], cuda=arguments.cuda)
    options = ["--quick"] if arguments.quick else []
    options += ["--json", str(arguments.json.resolve())] if arguments.json else []
    options += arguments.more
    done = subprocess.run([str(PYTHON), "-m", f"tests.benchmarks.{arguments.name}", *options], cwd=ROOT)
    if done.returncode:
        raise Failed(f"The benchmark {arguments.name} failed.")
