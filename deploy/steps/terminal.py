"""Terminal output and commands: a line for each step, and the whole output of a command that failed."""

import contextlib
import shlex
import subprocess
import sys
import threading
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
    """Print one line: the step's name, and then how long it took. A terminal shows the seconds as they pass."""
    began, ended = time.monotonic(), threading.Event()
    print(f"  {what} ... ", end="", flush=True)
    clock = threading.Thread(target=_show_seconds, args=(what, began, ended), daemon=True)
    if IS_TERMINAL:
        clock.start()
    outcome = ""  # if it is stopped
    try:
        yield
        outcome = f"{time.monotonic() - began:.1f} s"
    except Exception:
        outcome = "failed"
        raise
    finally:
        ended.set()
        if IS_TERMINAL:
            clock.join()
            redraw(f"  {what} ... ")
        if outcome:
            say(outcome)


_redrawn_at = 0.0


def redraw(line: str) -> None:
    """Print a line in place of the last one of a terminal."""
    global _redrawn_at
    _redrawn_at = time.monotonic()
    print(f"\r\033[K{line}", end="", flush=True)


def _show_seconds(what: str, began: float, ended: threading.Event) -> None:
    """Show the seconds of a step until it ends, but for those in which something else is shown, as a progress bar."""
    while not ended.wait(1):
        if time.monotonic() - _redrawn_at > 0.9:
            redraw(f"  {what} ... {time.monotonic() - began:.0f} s")


def run(command: Sequence[str | Path], *, env: dict[str, str] | None = None, what: str) -> str:
    """Run a command to its end and return its output. Raise StepError with the output if it fails."""
    completed = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if completed.returncode:
        raise StepError(f"{what} failed ({shlex.join(map(str, command))}):\n\n{completed.stdout}")
    return completed.stdout
