"""The model server on many machines, as in production, and what its users see when one of its parts stops: two web
servers behind nginx, two workers, PostgreSQL, Redis and a model host, each in a network namespace of its own.

Users stream, ask for whole answers, hold a WebSocket and wait for a batch; then one part after the other is stopped,
and started again a second later, as systemd does. Needs root, nginx, PostgreSQL and Redis. Times are printed, none is
judged.
"""

import asyncio
import json
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil

from inference.engine import HostClient, HostUnavailable
from tests.benchmarks._crowd import Crowd
from tests.benchmarks._machines import Machines, NoNamespaces, as_user, plain_environment, python
from tests.benchmarks._table import arguments
from tests.deploy.test_nginx import MAIN, certificate
from tests.postgresql import find_binaries

CHECKOUT = Path(__file__).resolve().parents[2]
NGINX = CHECKOUT / "deploy" / "nginx"
NAME = "models.example.com"
DRAIN_S = 20
BEFORE_S, DOWN_S = 4.0, 1.0
MAKE_KEY = """
import django
django.setup()
from django.utils import timezone
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
now = timezone.now()
who = {"email": "bench@example.com", "name": "Bench", "password": "only for this run", "role": Role.SUPER_ADMIN}
user = create_user(**who, now=now)
print(create_api_key(user=user, name="bench", now=now)[1])
"""


def answers(address: str, port: int) -> Callable[[], bool]:
    def asked() -> bool:
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            return False
        return True

    return asked


def is_ready(address: str) -> Callable[[], bool]:
    def asked() -> bool:
        try:
            return httpx2.get(f"http://{address}:8001/readyz", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False

    return asked


class Production:
    """Every part of the model server, up."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.run_dir = machines.folder / "run" / "models"
        self._start_data()
        self._start_models()
        for number in (1, 2):
            self._start_web(number)
        for number in (1, 2):
            address = self.machines.add(f"worker-{number}", 40 + number)
            self._start(f"worker-{number}", python("manage_inference.py", "worker"), address)
        self._start_nginx()

    def _start_data(self) -> None:
        binaries = find_binaries()
        assert binaries, "PostgreSQL is not installed here."
        data = self.machines.folder / "postgres"
        data.mkdir()
        shutil.chown(data, "postgres", "postgres")
        address = self.machines.add("database", 10)
        made = as_user("postgres", [binaries / "initdb", "-U", "stoa", "-A", "trust", "-D", data / "data"])
        self.machines.run("database", made, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
        with (data / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.77.0.0/24 trust\n")
        server = [binaries / "postgres", "-D", data / "data", "-k", data, "-h", address, "-c", "max_connections=150"]
        self.machines.start("database", as_user("postgres", server), is_up=answers(address, 5432))
        broker = self.machines.add("redis", 11)
        options = ["--bind", broker, "--save", "", "--appendonly", "no", "--protected-mode", "no"]
        self.machines.start("redis", ["redis-server", *options], is_up=answers(broker, 6379))
        self.environment = plain_environment() | {
            "DJANGO_SETTINGS_MODULE": "inference.config.settings.production",
            "SECRET_KEY": secrets.token_urlsafe(48),
            "STOA_JWT_KEY": secrets.token_urlsafe(48),
            "DATABASE_URL": f"postgres://stoa@{address}:5432/postgres",
            "REDIS_URL": f"redis://{broker}:6379/0",
            "STOA_START_HOST": "false",
            "STOA_RUN_DIR": str(self.run_dir),
            "STOA_TRUSTED_PROXIES": "1",
            "STOA_FILES_DIR": str(self.machines.folder / "files"),
            "STOA_KEY_REQUEST_LIMIT": "1000000",
            "STOA_KEY_TOKEN_LIMIT": "1000000000",
            "STOA_KEY_CONCURRENCY_LIMIT": "1000",
            "STOA_USER_REQUEST_LIMIT": "1000000",
            "STOA_USER_TOKEN_LIMIT": "1000000000",
            "STOA_USER_CONCURRENCY_LIMIT": "1000",
        }

    def _start_models(self) -> None:
        self.machines.add("models", None)
        compiled = CHECKOUT / "var" / "compiled"
        host = python("-m", "inference.engine.host", "--run-dir", str(self.run_dir), "--compiled-dir", str(compiled))
        self.machines.start("models", host, plain_environment(), is_up=self._host_answers)

    def _host_answers(self) -> bool:
        try:
            asyncio.run(HostClient(self.run_dir).models())
        except HostUnavailable:
            return False
        return True

    def _start_web(self, number: int) -> None:
        name, address = f"web-{number}", self.machines.add(f"web-{number}", 20 + number)
        if number == 1:
            environment = self._environment(name, address)
            self.machines.run(name, python("manage_inference.py", "migrate", "--noinput", "-v0"), environment)
            self.key = self.machines.run(name, python("-c", MAKE_KEY), environment).strip()
        serve = ["manage_inference.py", "serve", "--host", address, "--port", "8001", "--drain", str(DRAIN_S)]
        self._start(name, python(*serve), address, is_ready(address))

    def _environment(self, name: str, address: str) -> dict[str, str]:
        home = self.machines.folder / name
        home.mkdir(exist_ok=True)
        return self.environment | {"STOA_HOME": str(home), "STOA_ALLOWED_HOSTS": f"{NAME},{address}"}

    def _start(self, name: str, command: list[str], address: str, is_up: Callable[[], bool] = lambda: True) -> None:
        self.machines.start(name, command, self._environment(name, address), is_up)

    def _start_nginx(self) -> None:
        folder = self.machines.folder / "nginx"
        folder.mkdir()
        certificate(folder / "tls")
        (folder / "stoa").mkdir()
        for source in [*NGINX.rglob("*.conf")]:
            text = source.read_text().replace("/etc/stoa/tls", str(folder / "tls"))
            text = text.replace("/etc/nginx/stoa-upstreams.conf", str(folder / "upstreams.conf"))
            text = text.replace("/etc/nginx/stoa/", f"{folder}/stoa/").replace("/var/log/nginx", str(folder))
            text = text.replace("127.0.0.1:8001", "10.77.0.21:8001").replace("127.0.0.1:8011", "10.77.0.22:8001")
            (folder / source.relative_to(NGINX)).write_text(text)
        (folder / "nginx.conf").write_text("daemon off; user root;" + MAIN.format(folder=folder))
        self.address = self.machines.add("front", 30)
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        self.machines.start("front", command, is_up=answers(self.address, 443))

    def model_process(self) -> psutil.Process:
        statuses = asyncio.run(HostClient(self.run_dir).models())
        pid = next(status.pid for status in statuses if status.model_id == "stoa-describer")
        assert pid
        return psutil.Process(pid)


@dataclass
class Seen:
    """What users saw while a part was stopped."""

    what: str
    counts: dict[str, Counter[str]]
    worst_gap_s: float
    exit_status: str = ""
    notes: list[str] = field(default_factory=list)


def stop_and_start(production: Production, crowd: Crowd, what: str, part: str, how: signal.Signals) -> Seen:
    crowd.begin_anew()
    time.sleep(BEFORE_S)
    status = ""
    if part == "model process":
        production.model_process().kill()
    else:
        found = production.machines.parts[part]
        status = str(found.end(how))
        time.sleep(DOWN_S)
        found.start()
        found.wait_until_up()
    crowd.wait_until_well()
    return Seen(what, crowd.counts(), crowd.worst_gap_s(), status)


FAULTS = [
    ("nothing", "", signal.SIGCONT),
    ("a web server, SIGTERM", "web-1", signal.SIGTERM),
    ("a web server, kill -9", "web-2", signal.SIGKILL),
    ("a worker, SIGTERM", "worker-1", signal.SIGTERM),
    ("a worker, kill -9", "worker-2", signal.SIGKILL),
    ("Redis, kill -9", "redis", signal.SIGKILL),
    ("PostgreSQL, immediate", "database", signal.SIGQUIT),
    ("a model process, kill -9", "model process", signal.SIGKILL),
    ("the model host, kill -9", "models", signal.SIGKILL),
    ("nginx, SIGTERM", "front", signal.SIGTERM),
]


def measure(production: Production, crowd: Crowd) -> list[Seen]:
    seen = []
    for what, part, how in FAULTS:
        if part:
            seen.append(stop_and_start(production, crowd, what, part, how))
        else:
            crowd.begin_anew()
            time.sleep(BEFORE_S)
            crowd.wait_until_well()
            seen.append(Seen(what, crowd.counts(), crowd.worst_gap_s()))
        print(told(seen[-1]), flush=True)
    return seen


def told(seen: Seen) -> str:
    def of(kind: str) -> str:
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(seen.counts[kind].items())) or "-"

    kinds = " | ".join(of(kind) for kind in ("streams", "answers", "sockets"))
    return f"| {seen.what} | {kinds} | {seen.worst_gap_s:.1f} s | {seen.exit_status or '-'} |"


def main() -> None:
    chosen = arguments(str(__doc__).partition("\n")[0])
    with tempfile.TemporaryDirectory(prefix="stoa-machines-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's user walks through it
        try:
            with Machines(Path(folder)).connected() as machines:
                production = Production(machines)
                with Crowd(production.address, NAME, production.key, quick=chosen.quick) as crowd:
                    crowd.wait_until_served()
                    print("| stopped | streams | whole answers | sockets | longest without one | its exit |")
                    print("|---|---|---|---|---|---|")
                    rows = measure(production, crowd)
                    batch = crowd.finish_batch()
        except NoNamespaces as error:
            sys.exit(f"Not run: {error}")
    print(f"\nThe batch: {batch}")
    if chosen.json:
        outcome: list[dict[str, Any]] = [
            {"name": row.what, "value": row.worst_gap_s, "counts": {k: dict(v) for k, v in row.counts.items()}}
            for row in rows
        ]
        chosen.json.write_text(json.dumps({"ratios": outcome}, indent=2))


if __name__ == "__main__":
    main()
