"""Simulated machines: network namespaces on a bridge with addresses of their own, and disks. Needs root on Linux."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shared.serving.processes.child_processes import die_with_parent

BRIDGE = "stoa-bench"
NETWORK = "10.77.0"
START_TIMEOUT_SECONDS = 120.0


class NamespacesUnavailable(Exception):
    """Raised if this machine cannot create network namespaces."""


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise NamespacesUnavailable(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@dataclass
class MachineProcess:
    """A program on a machine of its own, which can be stopped and restarted."""

    name: str
    command: list[str]
    log: Path
    environment: Mapping[str, str] | None = None
    is_up: Callable[[], bool] = field(default=lambda: True)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.name, *self.command],
                env=None if self.environment is None else dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(),
            )

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self.is_up():
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} ended: {self.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"{self.name} is not up: {self.log.read_text()[-2000:]}"
            time.sleep(0.1)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it and return its exit status; kill it after a minute."""
        assert self.process is not None
        self.process.send_signal(number)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Machines:
    """A bridge, its machines with their programs, and a folder that all machines share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: dict[str, MachineProcess] = {}
        self._names: list[str] = []
        self._disks: list[Path] = []

    @contextlib.contextmanager
    def connected(self) -> Iterator["Machines"]:
        ip("link", "add", BRIDGE, "type", "bridge")
        try:
            ip("addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
            ip("link", "set", BRIDGE, "up")
            yield self
        finally:
            self._end()

    def add(self, name: str, number: int | None) -> str:
        """Add a machine and return its address; without a number, it has only a loopback network."""
        ip("netns", "add", name)
        self._names.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        if number is None:
            return ""
        ip("link", "add", f"sb{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", f"sb{number}", "master", BRIDGE, "up")
        ip("-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        return f"{NETWORK}.{number}"

    def add_disk(self, name: str, mib: int) -> Path:
        """Mount a file system of this size, in memory."""
        disk = self.folder / name
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0755", "tmpfs", str(disk)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NamespacesUnavailable(f"mount: {done.stderr.strip()}")
        self._disks.append(disk)
        return disk

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        is_up: Callable[[], bool] = lambda: True,
    ) -> MachineProcess:
        """Run a program on the machine of this name; return when it is ready."""
        part = MachineProcess(name, list(map(str, command)), self.folder / f"{name}.log", environment, is_up)
        self.parts[name] = part
        part.start()
        part.wait_until_up()
        return part

    def run(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> str:
        """Run a program on the machine to its end and return its output."""
        done = subprocess.run(
            ["ip", "netns", "exec", name, *command], env=dict(environment), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _end(self) -> None:
        for part in reversed(self.parts.values()):
            if part.process is not None and part.process.poll() is None:
                part.end()
        for name in self._names:
            with contextlib.suppress(NamespacesUnavailable):
                ip("netns", "del", name)
        with contextlib.suppress(NamespacesUnavailable):
            ip("link", "del", BRIDGE)
        for disk in self._disks:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def as_user(user: str, command: Sequence[str | Path]) -> list[str]:
    """The command as this user: PostgreSQL refuses root."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *map(str, command)]


def plain_environment() -> dict[str, str]:
    """Return this environment without the settings of a developer."""
    settings = ("STOA_", "DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "SECRET_KEY")
    return {name: value for name, value in os.environ.items() if not name.startswith(settings)}
