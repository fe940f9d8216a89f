"""What it says while it works: a line a step, and what failed."""

import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A step failed; the message says what to do."""


IS_TERMINAL = sys.stdout.isatty()


def say(text: str = "") -> None:
    print(text, flush=True)


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """One line: what is being done, and how long it took."""
    began = time.monotonic()
    print(f"  {what} ... ", end="", flush=True)
    try:
        yield
    except Exception:
        say("failed")
        raise
    say(f"{time.monotonic() - began:.1f} s")


def run(command: Sequence[str | Path], *, env: dict[str, str] | None = None, what: str) -> str:
    """Run to the end and give the output; shown whole when it fails."""
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise Failed(f"{what} failed ({shlex.join(map(str, command))}):\n\n{done.stdout}")
    return done.stdout
