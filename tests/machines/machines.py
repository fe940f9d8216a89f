"""Simulated machines: network, mount and process namespaces on one bridge, each with a shell of its operator.

A machine has its own `/etc`, `/var`, `/run` and `/opt`. Needs root on Linux, and `ip` of iproute2.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.benchmarks.system._machines import NamespacesUnavailable, ip

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(__file__).parent / "bin"
COMMAND_TIMEOUT_SECONDS = 900
PROGRAM = ("commerce", "inference", "shared", "manage_commerce.py", "manage_inference.py", "deploy", "pyproject.toml")
PREPARE = """
set -euo pipefail
cp -a /etc/. {folder}/etc
for found in /opt/*; do
  if [ -d "$found" ]; then mkdir -p {folder}"$found"; mount --bind "$found" {folder}"$found"; fi
done
mkdir -p {folder}/opt/stoa
for source in {program} {prefix}; do
  target={folder}/opt/stoa/$(basename "$source")
  if [ "$source" = {prefix} ]; then target={folder}/opt/stoa/.venv; fi
  if [ -d "$source" ]; then mkdir "$target"; else touch "$target"; fi
  mount --bind "$source" "$target"
done
for name in etc var run; do mount --bind {folder}/$name /$name; done
mount --rbind {folder}/opt /opt
ip link set lo up
useradd --system --non-unique --uid 0 --gid 0 --home-dir /var/lib/stoa stoa
groupadd --system --non-unique --gid 0 stoa 2>/dev/null || true
export HOME=/var/lib LC_ALL=C.UTF-8
export PATH={bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin MACHINES={machines}
unset STOA_HOME DATABASE_URL REDIS_URL DJANGO_SETTINGS_MODULE
cd /opt/stoa
"""


class Machine:
    """A machine with its shell, in which variables and functions stay. A command that fails ends it."""

    def __init__(self, name: str, address: str, folder: Path, namespace: str) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self._done = f"done-{uuid.uuid4().hex}"
        for path in ("etc", "opt", "run/postgresql", "run/redis", "var/lib/nginx", "var/log/nginx", "var/tmp"):
            (folder / path).mkdir(parents=True)
        (folder / "var" / "run").symlink_to("/run")
        isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._shell = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *isolated, "bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        program = " ".join(shlex.quote(str(CHECKOUT / path)) for path in PROGRAM)
        self.run(PREPARE.format(folder=folder, machines=folder.parent, bin=BIN, program=program, prefix=sys.prefix))

    def run(self, commands: str) -> str:
        """Run commands in the machine's shell, and return what they print. Raise AssertionError if one fails."""
        script = self.folder / "commands.sh"
        script.write_text(commands + "\n")
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        try:
            self._shell.stdin.write(f"source {script} < /dev/null; echo {self._done}\n")
            self._shell.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"The shell of {self.name} has ended.") from None
        printed = list[str]()
        timer = threading.Timer(COMMAND_TIMEOUT_SECONDS, self._shell.kill)
        timer.start()
        try:
            for line in self._shell.stdout:
                if line.rstrip("\n").endswith(self._done):
                    return "".join([*printed, line.rstrip("\n").removesuffix(self._done)])
                printed.append(line)
        finally:
            timer.cancel()
        raise AssertionError(f"On {self.name} this failed:\n{commands}\n{''.join(printed)}")

    def logs(self) -> str:
        """Return the last lines of the logs of the machine's services."""
        found = sorted((self.folder / "var" / "log" / "units").glob("*"))
        return "\n".join(f"--- {self.name}: {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in found)

    def end(self) -> None:
        """Kill every process of the machine. They have ended when its shell, the first one of its namespace, has."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for shell in psutil.Process(self._shell.pid).children():
                shell.kill()
        self._shell.communicate()


@contextlib.contextmanager
def connected_machines(folder: Path, addresses: dict[str, str]) -> Iterator[dict[str, Machine]]:
    """Yield machines by name, each with its address on a network that only they share."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise NamespacesUnavailable("network namespaces need root on Linux")
    if missing := [name for name in ("ip", "unshare", "setpriv", "useradd") if not shutil.which(name)]:
        raise NamespacesUnavailable(f"{', '.join(missing)} is missing: apt-get install iproute2 util-linux passwd")
    run = uuid.uuid4().hex[:6]
    with contextlib.ExitStack() as ends:
        ip("link", "add", f"st{run}", "type", "bridge")
        ends.callback(ip, "link", "del", f"st{run}")
        ip("link", "set", f"st{run}", "up")
        machines = {}
        for number, (name, address) in enumerate(addresses.items()):
            namespace, link = f"stoa-{run}-{name}", f"st{run}-{number}"
            ip("netns", "add", namespace)
            ends.callback(ip, "netns", "del", namespace)
            ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            ip("link", "set", link, "master", f"st{run}", "up")
            ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "eth0", "up")
            machine = Machine(name, address, folder / address, namespace)
            ends.callback(machine.end)
            machines[name] = machine
        yield machines
