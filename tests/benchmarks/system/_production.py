"""The model server as in production: nginx, two web servers, two workers, PostgreSQL, Redis and a model host.

Each has a simulated machine of its own. nginx reads the files of deploy/.
"""

import asyncio
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import psutil

from inference.engine import HostClient, HostUnavailable
from tests.benchmarks.system._machines import NETWORK, Machines, as_user, plain_environment, python
from tests.deploy.test_nginx import MAIN, certificate
from tests.postgresql import find_binaries

CHECKOUT = Path(__file__).resolve().parents[3]
NGINX = CHECKOUT / "deploy" / "nginx"
NAME, SHOP_NAME = "models.example.com", "shop.example.com"
DRAIN_S = 20
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


def is_ready(address: str, port: int = 8001) -> Callable[[], bool]:
    def asked() -> bool:
        try:
            return httpx2.get(f"http://{address}:{port}/readyz", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False

    return asked


class Production:
    """Every part of the model server, up."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.disk = self.make_disk()
        self.run_dir = machines.folder / "run" / "models"
        self._start_data()
        self._start_models()
        for number in (1, 2):
            self._start_web(number)
        for number in (1, 2):
            address = self.machines.add(f"worker-{number}", 40 + number)
            self._start(f"worker-{number}", python("manage_inference.py", "worker"), address)
        self._start_nginx()

    def make_disk(self) -> Path:
        """Return the folder of the database and the files."""
        return self.machines.folder

    def _start_data(self) -> None:
        binaries = find_binaries()
        assert binaries, "PostgreSQL is not installed here."
        data = self.disk / "postgres"
        data.mkdir()
        shutil.chown(data, "postgres", "postgres")
        address = self.machines.add("database", 10)
        made = as_user("postgres", [binaries / "initdb", "-U", "stoa", "-A", "trust", "-D", data / "data"])
        self.machines.run("database", made, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
        with (data / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.77.0.0/24 trust\n")
        server = [binaries / "postgres", "-D", data / "data", "-k", data, "-h", address, "-c", "max_connections=150"]
        server += ["-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB"]
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
            "STOA_TRUSTED_PROXY_COUNT": "1",
            "STOA_FILES_DIR": str(self.disk / "files"),
            "STOA_KEY_REQUESTS_PER_MINUTE": "1000000",
            "STOA_KEY_TOKENS_PER_MINUTE": "1000000000",
            "STOA_KEY_CONCURRENCY_LIMIT": "1000",
            "STOA_USER_REQUESTS_PER_MINUTE": "1000000",
            "STOA_USER_TOKENS_PER_MINUTE": "1000000000",
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
        return self.environment | {"STOA_HOME": str(home), "STOA_ALLOWED_HOSTS": f"{NAME},{SHOP_NAME},{address}"}

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
            text = text.replace("127.0.0.1:8000", "10.77.0.51:8000").replace("127.0.0.1:8010", "10.77.0.52:8000")
            (folder / source.relative_to(NGINX)).write_text(text)
        (folder / "nginx.conf").write_text("daemon off; user root;" + MAIN.format(folder=folder))
        self.address = self.machines.add("front", 30)
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        self.machines.start("front", command, is_up=answers(self.address, 443))

    def set_upstream(self, part: str, *, is_in: bool) -> None:
        """Take a web server out of nginx's upstreams, or put it back, and reload nginx, as the manual says."""
        upstreams = self.machines.folder / "nginx" / "upstreams.conf"
        server = f"server {NETWORK}.2{part[-1]}:8001"
        now, then = (f"{server} down", server) if is_in else (server, f"{server} down")
        upstreams.write_text(upstreams.read_text().replace(now, then))
        front = self.machines.parts["front"].process
        assert front
        front.send_signal(signal.SIGHUP)
        time.sleep(1)

    def model_process(self) -> psutil.Process:
        statuses = asyncio.run(HostClient(self.run_dir).models())
        pid = next(status.pid for status in statuses if status.model_id == "stoa-describer")
        assert pid
        return psutil.Process(pid)
