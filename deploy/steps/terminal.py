"""Terminal output and commands: a line for each step, and the whole output of a command that failed."""

import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IS_TERMINAL = sys.stdout.isatty()


class StepError(Exception):
    """Failure of a step; the message says what to do about it."""


def say(text: str = "") -> None:
    print(text, flush=True)


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Print one line: the step's name, and then how long it took."""
    began = time.monotonic()
    print(f"  {what} ... ", end="", flush=True)
    try:
        yield
    except Exception:
        say("failed")
        raise
    say(f"{time.monotonic() - began:.1f} s")


def run(command: Sequence[str | Path], *, env: dict[str, str] | None = None, what: str) -> str:
    """Run a command to its end and return its output. Raise StepError with the output if it fails."""
    completed = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if completed.returncode:
        raise StepError(f"{what} failed ({shlex.join(map(str, command))}):\n\n{completed.stdout}")
    return completed.stdout
