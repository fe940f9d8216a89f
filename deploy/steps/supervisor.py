"""Supervisor of child processes: it restarts those that exit, and none outlives it."""

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

from steps.terminal import ROOT, StepError, say


@dataclass
class SupervisedProcess:
    """A program that is kept running, in a process group of its own, with its output in a log file."""

    name: str
    command: list[str]
    env: dict[str, str]
    log: Path
    death_signal: signal.Signals
    process: subprocess.Popen | None = None
    started_at: float = 0.0
    quick_exit_count: int = 0
    restart_at: float = 0.0

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
                preexec_fn=set_death_signal(self.death_signal),
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


def set_death_signal(number: signal.Signals) -> Callable[[], None]:
    """Return a preexec_fn: the kernel sends the child this signal when its parent ends, even by kill -9.

    It does nothing outside Linux, the only system that offers this.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    parent = os.getpid()

    def call_prctl() -> None:
        if libc:
            libc.prctl(1, number)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:
                os._exit(1)

    return call_prctl


class Supervisor:
    """Starts processes, restarts those that exit, and stops them all. Must be made in the main thread."""

    QUICK_EXIT_SECONDS = 10
    MAX_QUICK_EXITS = 3
    STOP_TIMEOUT_SECONDS = 15

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._processes: list[SupervisedProcess] = []
        self.stopping = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        if not self.stopping:
            self.stopping = True
            raise StopRequested
        for supervised in self._processes:  # a second signal: no more waiting
            supervised.kill_group()

    def add(
        self, name: str, command: Sequence[str | Path], env: dict[str, str], death_signal: signal.Signals
    ) -> SupervisedProcess:
        log = self._logs / f"{name}.log"
        log.write_bytes(b"")
        supervised = SupervisedProcess(name, list(map(str, command)), env, log, death_signal)
        self._processes.append(supervised)
        supervised.start()
        return supervised

    def remove(self, supervised: SupervisedProcess) -> None:
        """Stop supervising a process that has exited."""
        self._processes.remove(supervised)

    def restart_exited(self) -> None:
        """Restart the processes that exited, with exponential backoff.

        Raise StepError if one exits soon after its start MAX_QUICK_EXITS times in a row.
        """
        now = time.monotonic()
        for supervised in self._processes:
            if supervised.is_running():
                continue
            if not supervised.restart_at:
                is_quick = now - supervised.started_at < self.QUICK_EXIT_SECONDS
                supervised.quick_exit_count = supervised.quick_exit_count + 1 if is_quick else 1
                if supervised.quick_exit_count >= self.MAX_QUICK_EXITS:
                    raise StepError(f"{supervised.name} keeps exiting. Its last lines:\n\n{supervised.last_lines()}")
                supervised.restart_at = now + 0.5 * 2**supervised.quick_exit_count
                say(f"  {supervised.name} exited with status {supervised.process.returncode}; restarting it.")
            elif now >= supervised.restart_at:
                supervised.restart_at = 0.0
                supervised.start()

    def wait_until(self, condition: Callable[[], bool], *, timeout_seconds: float, what: str) -> None:
        """Supervise until the condition is true. Raise StepError after the timeout."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            if time.monotonic() > deadline:
                tails = "\n\n".join(f"{supervised.name}:\n{supervised.last_lines()}" for supervised in self._processes)
                raise StepError(f"{what} took more than {timeout_seconds:.0f} s. Last lines:\n\n{tails}")
            self.restart_exited()
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the processes in reverse order: SIGTERM, then SIGKILL to the group after STOP_TIMEOUT_SECONDS."""
        self.stopping = True
        for supervised in reversed(self._processes):
            supervised.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                supervised.process.wait(self.STOP_TIMEOUT_SECONDS)
            supervised.kill_group()
            supervised.process.wait()


class StopRequested(BaseException):
    """Raised on Ctrl-C or SIGTERM. As with KeyboardInterrupt, no `except Exception` handles it."""
