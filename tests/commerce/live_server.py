"""The shop as a real process on a port, with demo data in its own database."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.migrated_database import is_postgresql, migrated_file
from tests.once_per_run import once_per_run
from tests.postgresql import LocalPostgresql, find_binaries

REPOSITORY = Path(__file__).resolve().parents[2]
START_LIMIT_S = 60
SETTINGS = "commerce.config.settings.test"
DUMP = "shop.sql"
# One process: starting Python takes as long as creating the demo data.
MAKE_SHOP = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("seed", "--small", "--json")
"""
MAKE_KEY = """
from django.utils import timezone
from shared.accounts.models import User
from shared.accounts.services import create_api_key
print(create_api_key(user=User.objects.get(email="{email}"), name="test", now=timezone.now())[1])
"""


@dataclass
class ServedShop:
    """A running shop."""

    url: str
    users: list[dict[str, str]]
    log: Path
    environment: dict[str, str]  # of other processes that use its database
    pid: int = 0

    def headers(self, role: str) -> dict[str, str]:
        """Sign in as a demo user with this role; return the Authorization header."""
        user = next(user for user in self.users if user["role"] == role)
        body = {"email": user["email"], "password": user["password"]}
        answer = httpx2.post(f"{self.url}/api/token", json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        return {"Authorization": f"Bearer {answer.json()['token']}"}

    def api_key(self, role: str) -> str:
        """Return an API key of a demo user with this role, which signing out does not revoke."""
        email = next(user["email"] for user in self.users if user["role"] == role)
        return manage(self.environment, "shell", "-v", "0", "-c", MAKE_KEY.format(email=email)).strip()


@contextlib.contextmanager
def served_shop(
    *, provider_url: str, database_url: str = "", extra: dict[str, str] | None = None
) -> Iterator[ServedShop]:
    """A shop that answers; it is gone afterwards. Its data are in a file of its own, or in the database that is named,
    which has no rows."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        environment = shop_environment(home, provider_url=provider_url) | (extra or {})
        if database_url:
            environment["DATABASE_URL"] = database_url
            users = make_shop(environment)
        else:
            users = copy_shop(home)
        log = Path(home) / "log"
        process = start_server(environment, log)
        try:
            yield ServedShop(url_of(process, log), users, log, environment, process.pid)
        finally:
            process.terminate()
            process.wait(30)


def shop_environment(home: str, *, provider_url: str = "http://127.0.0.1:9") -> dict[str, str]:
    """Return the environment of processes that share one shop in a folder of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    return kept | {
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "DATABASE_URL": f"sqlite:///{home}/stoa.sqlite3",
        "REDIS_URL": "",
        "STOA_HOME": home,
        "STOA_DESCRIPTIONS_BASE_URL": provider_url,
        "STOA_DESCRIPTIONS_API_KEY": "sk-canary-key",
    }


def make_shop(environment: dict[str, str]) -> list[dict[str, str]]:
    """Create the tables and the demo data; return the demo users."""
    users: list[dict[str, str]] = json.loads(manage(environment, "shell", "-v", "0", "-c", MAKE_SHOP))["users"]
    return users


def copy_shop(home: str | Path, database_url: str = "") -> list[dict[str, str]]:
    """Create a shop as `make_shop` does, from a copy of the run's: in a file, or in this empty PostgreSQL database."""
    folder, users = once_per_run(make_dumped_shop if database_url else make_copied_shop)
    shutil.copytree(folder, home, dirs_exist_ok=True)
    if database_url:
        run_client("psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", folder / DUMP, "-d", database_url)
    return list(json.loads(users))


def make_copied_shop(folder: Path) -> str:
    if os.environ.get("DJANGO_SETTINGS_MODULE") == SETTINGS and not is_postgresql():
        shutil.copy(migrated_file(), folder)  # which the tests of this run need anyway
    return json.dumps(make_shop(shop_environment(str(folder))))


def make_dumped_shop(folder: Path) -> str:
    binaries = find_binaries()
    assert binaries is not None
    server = LocalPostgresql(binaries)
    try:
        server.start()
        users = make_shop(shop_environment(str(folder)) | {"DATABASE_URL": server.url})
        run_client("pg_dump", "-f", folder / DUMP, "-d", server.url)
    finally:
        server.stop()
    return json.dumps(users)


def run_client(name: str, *arguments: str | Path) -> None:
    """Run one of PostgreSQL's clients."""
    binaries = find_binaries()
    assert binaries is not None
    done = subprocess.run([binaries / name, *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def start_server(environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Run `serve` on a free port, with its output in `log`."""
    command = [sys.executable, "manage_commerce.py", "serve", "--port", "0", "--drain", "5"]
    with log.open("wb") as output:
        return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=subprocess.STDOUT)


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a management command of the shop and return its output."""
    command = [sys.executable, "manage_commerce.py", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def url_of(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the address in the server's log."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        for line in log.read_text().splitlines():
            if line.startswith("{") and (urls := json.loads(line).get("urls")):
                return str(urls[0])
        assert process.poll() is None, f"the server ended: {log.read_text()}"
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
