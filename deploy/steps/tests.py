"""`deploy/run test`: every test, in pytest runs that differ in settings, database server and parallelism."""

import argparse
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from steps.packages import PYTHON, prepare_frameworks_venv, prepare_venv
from steps.terminal import ROOT, StepError, say

SERVER_MISSING = 86  # the exit code of tests/services.py
RUN_VARIABLE = "TESTS_STARTED_BY"  # in the environment of every process that the tests start


@dataclass(frozen=True)
class TestRun:
    """One call of pytest. `settings` names a project; it is empty for tests that use Stoa from outside."""

    name: str
    paths: list[str]
    options: list[str]
    settings: str = ""

    def command(self, paths: Sequence[str], pytest_options: Sequence[str]) -> list[str]:
        django = [f"--ds={self.settings}.config.settings.test"] if self.settings else ["-p", "no:django"]
        return [str(PYTHON), "-m", "pytest", *django, *RERUN, *self.options, *pytest_options, *paths]

    def select(self, requested: Sequence[str]) -> list[str]:
        """Return those of the requested paths that this run covers; all its paths if none is requested."""
        if not requested:
            return self.paths
        return [path for path in requested if any(Path(path.split("::")[0]).is_relative_to(own) for own in self.paths)]


# Hundreds of tests start real processes and wait for them, and one in thousands waits too short on a busy machine. A
# test that fails runs once more and has to pass then; the summary names it, so that it can be made steady.
RERUN = ["--reruns", "1", "-raR"]
# Three workers on two processors: much of their time they wait for servers that they have started. Each gets a third of
# the files in one piece, so that few servers of a file are started twice, and takes over others' tests when it is done.
PARALLEL = ["-n", "3", "--dist", "worksteal"]
ON_SQLITE = ["-p", "tests.services", "--database=sqlite", "--redis=valkey", *PARALLEL]
ON_POSTGRESQL = ["-p", "tests.services", "--database=postgresql", "--redis=redis", *PARALLEL]
END_TO_END = ["tests/journeys", "tests/conformance"]


def list_test_runs(root: Path = ROOT) -> list[TestRun]:
    """Return the runs, which together cover every test file under tests/."""
    by_project = {
        "commerce": ["tests/commerce", "tests/shared"],
        "inference": ["tests/inference", *settings_tests(root)],
    }
    covered = {*END_TO_END, *by_project["commerce"], *by_project["inference"]}
    others = [str(path.relative_to(root)) for path in sorted((root / "tests").iterdir()) if contains_tests(path)]
    return [
        TestRun("the repository and its deployment", [path for path in others if path not in covered], PARALLEL),
        *(TestRun(f"{project} on SQLite", paths, ON_SQLITE, project) for project, paths in by_project.items()),
        TestRun("commerce on PostgreSQL", by_project["commerce"], ON_POSTGRESQL, "commerce"),
        TestRun("inference on PostgreSQL", ["tests/inference"], ON_POSTGRESQL, "inference"),
        TestRun("Stoa end to end", END_TO_END, []),
    ]


def contains_tests(path: Path) -> bool:
    return next(path.rglob("test_*.py"), None) is not None if path.is_dir() else path.match("test_*.py")


def settings_tests(root: Path) -> list[str]:
    """Return the files of tests/shared with the mark `each_project`, which test the settings of the running project."""
    files = sorted((root / "tests" / "shared").rglob("test_*.py"))
    return [str(path.relative_to(root)) for path in files if re.search(r"mark\.each_project\b", path.read_text())]


def test(arguments: argparse.Namespace) -> None:
    """Run every test run, one after the other, and print a line for each at the end."""
    prepare_venv(["test"], cuda=arguments.cuda)
    prepare_frameworks_venv()
    requested = [argument for argument in arguments.more if argument.startswith("tests")]
    pytest_options = [argument for argument in arguments.more if argument not in requested]
    results = []
    for test_run in list_test_runs():
        if paths := test_run.select(requested):
            say(f"\n{test_run.name}")
            results.append((test_run.name, *run_pytest(test_run.command(paths, pytest_options))))
    left = wait_for_end_of_processes()
    say()
    for name, code, last_line in results:
        say(f"  {name}: {'NOT RUN, see above' if code == SERVER_MISSING else last_line}")
    nothing_selected = 5
    allowed = {0, SERVER_MISSING, nothing_selected} if arguments.more else {0, SERVER_MISSING}
    if not results or any(code not in allowed for _, code, _ in results):
        raise StepError("Tests failed." if results else "No test run covers these paths.")
    if left:
        raise StepError("The tests passed, but left processes running:\n" + "\n".join(left))


def wait_for_end_of_processes(seconds: float = 10) -> list[str]:
    """Return the processes that the tests started and that still run after some seconds. Linux only."""
    until = time.monotonic() + seconds
    while (left := list_test_processes()) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def list_test_processes() -> list[str]:
    mark = f"{RUN_VARIABLE}={os.getpid()}\0".encode()
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's; that of a zombie is empty
            if mark in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                processes.append(f"  {folder.name} {command[:200]}")
    return processes


def run_pytest(command: Sequence[str]) -> tuple[int, str]:
    """Return pytest's exit code and last line, and print its output as it comes."""
    last_line = ""
    # They start hundreds of processes: their imports are compiled once, whatever the environment says.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env[RUN_VARIABLE] = str(os.getpid())
    # A shell's background process ignores Ctrl-C, and so would every process that the tests start and send it to.
    restore_sigint = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=restore_sigint,
    ) as pytest:
        for line in pytest.stdout:
            print(line, end="", flush=True)
            last_line = line.strip(" =\n") or last_line
    return pytest.returncode, last_line
