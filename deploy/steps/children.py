"""Child processes: kept running, and never left behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steps.terminal import ROOT, Failed, say


@dataclass
class Child:
    """A program that is kept running, in a process group of its own, with its output in a file."""

    name: str
    command: list[str]
    env: dict[str, str]
    log: Path
    death_signal: signal.Signals
    process: subprocess.Popen | None = None
    started_at: float = 0.0
    quick_deaths: int = 0
    start_again_at: float = 0.0

    def start(self) -> None:
        self.started_at = time.monotonic()
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dies_with_parent(self.death_signal),
            )

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self.is_running():
            self.process.send_signal(number)

    def kill_group(self) -> None:
        if self.process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def dies_with_parent(number: signal.Signals) -> Callable[[], None]:
    """The kernel sends the child this signal when we end, even by kill -9. Only Linux can; elsewhere nothing does."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    parent = os.getpid()

    def ask_the_kernel() -> None:
        if libc:
            libc.prctl(1, number)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:
                os._exit(1)

    return ask_the_kernel


class Supervisor:
    """Starts children, starts again those that end, and ends them all; for the main thread."""

    QUICK_S = 10
    MOST_QUICK_DEATHS = 3
    END_WITHIN_S = 15

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: list[Child] = []
        self.stopping = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        if not self.stopping:
            self.stopping = True
            raise Stopped
        for child in self._children:  # asked twice: no more waiting
            child.kill_group()

    def add(self, name: str, command: Sequence[str | Path], env: dict[str, str], death_signal: signal.Signals) -> Child:
        log = self._logs / f"{name}.log"
        log.write_bytes(b"")
        child = Child(name, list(map(str, command)), env, log, death_signal)
        self._children.append(child)
        child.start()
        return child

    def forget(self, child: Child) -> None:
        """It has ended, and that is well."""
        self._children.remove(child)

    def look(self) -> None:
        """Start again what has ended, a little later each time. Raises Failed for what ends at once every time."""
        now = time.monotonic()
        for child in self._children:
            if child.is_running():
                continue
            if not child.start_again_at:
                child.quick_deaths = child.quick_deaths + 1 if now - child.started_at < self.QUICK_S else 1
                if child.quick_deaths >= self.MOST_QUICK_DEATHS:
                    raise Failed(f"{child.name} does not stay up. Its last lines:\n\n{child.last_lines()}")
                child.start_again_at = now + 0.5 * 2**child.quick_deaths
                say(f"  {child.name} has ended ({child.process.returncode}); it is started again.")
            elif now >= child.start_again_at:
                child.start_again_at = 0.0
                child.start()

    def wait_until(self, is_so: Callable[[], bool], *, limit_s: float, what: str) -> None:
        """Look after the children until it is so. Raises Failed when that takes too long."""
        deadline = time.monotonic() + limit_s
        while not is_so():
            if time.monotonic() > deadline:
                tails = "\n\n".join(f"{child.name}:\n{child.last_lines()}" for child in self._children)
                raise Failed(f"{what} took more than {limit_s:.0f} s. Last lines:\n\n{tails}")
            self.look()
            time.sleep(0.1)

    def end(self) -> None:
        """Ask the last started first, wait for it, and kill what does not heed; nothing is left."""
        self.stopping = True
        for child in reversed(self._children):
            child.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(self.END_WITHIN_S)
            child.kill_group()
            child.process.wait()


class Stopped(BaseException):
    """Ctrl-C or a signal asks us to end; as with KeyboardInterrupt, nothing on the way takes it for a failure."""
