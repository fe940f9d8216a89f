"""The model server as its users meet it: a real process on a port, over a real model host with fake models in it."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from inference.engine import EngineClient, HostClient
from tests.inference.engine.processes import REPOSITORY, running_host, status_of
from tests.migrated_database import create_database, is_postgresql
from tests.once_per_run import once_per_run
from tests.running_stoa import COMPILED_DIR

PASSWORD = "a lamp for every room"
START_LIMIT_S = 200
SETTINGS = "inference.config.settings.test"

# Makes tables and users, and prints their keys: by role, and of a super admin's key that may only read.
_MAKE_USERS = f"""
import json
import django
django.setup()
from django.core.management import call_command
from django.utils import timezone
from shared.accounts.roles import Permission, Role
from shared.accounts.services import create_api_key, create_user
call_command("migrate", verbosity=0)
now = timezone.now()
keys = {{}}
for role in Role:
    user = create_user(email=f"{{role.lower()}}@example.com", name=role, password={PASSWORD!r}, role=role, now=now)
    keys[role] = create_api_key(user=user, name="test", now=now)[1]
    if role is Role.SUPER_ADMIN:
        keys["READER"] = create_api_key(user=user, name="r", permissions=[Permission.READ_MODELS], now=now)[1]
print(json.dumps(keys))
"""

# Prints how each ended: its arguments, status, output and complaints.
_RUN_VERBS = """
import contextlib
import io
import json
import sys
from inference.cli import main
ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["stoa", *arguments]
    output, complaints, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(complaints):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    ended.append([arguments, status, output.getvalue(), complaints.getvalue()])
print(json.dumps(ended))
"""

TALKER_CONFIG = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096}
EMBEDDER_CONFIG = {"architectures": ["LlamaModel"], "max_position_embeddings": 512}


@dataclass
class RunningServer:
    """A running server. Of the fakes, `talker` and `embedder` are loaded, `idle` and `slow-one` are not."""

    url: str
    keys: dict[str, str]
    host: HostClient
    engine: EngineClient
    environment: dict[str, str]
    models_dir: Path
    log: Path

    def headers(self, role: str = "SUPER_ADMIN") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[role]}"}

    def get(self, path: str, role: str = "SUPER_ADMIN") -> httpx2.Response:
        return httpx2.get(self.url + path, headers=self.headers(role), timeout=100)

    def post(self, path: str, body: object = None, role: str = "SUPER_ADMIN") -> httpx2.Response:
        return httpx2.post(self.url + path, json=body, headers=self.headers(role), timeout=100)

    def ask_as_written(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        """Status, headers (names in lower case) and body of a request whose path no client library has tidied up."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=100)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.load(answer)

    async def pid(self, model_id: str) -> int:
        status = await status_of(self.host, model_id)
        assert status is not None
        assert status.pid is not None
        return status.pid

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers=self.headers(), timeout=100)


def add_model(models_dir: Path, name: str, config: dict[str, object]) -> Path:
    """A folder that the catalog takes for a model; its name says how the fake behaves (see fake_model)."""
    folder = models_dir / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", size=1000)
    return folder


def write_safetensors(path: Path, size: int) -> None:
    """A file of so many bytes that holds one tensor."""
    count = (size - 160) // 4
    tensor = {"dtype": "F32", "shape": [count], "data_offsets": [0, count * 4]}
    header = json.dumps({"weights": tensor}).encode().ljust(size - 8 - count * 4)
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * (count * 4))


def run_manage(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """`manage_inference.py`, run to its end."""
    command = [sys.executable, "manage_inference.py", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100)


def run_commands(environment: dict[str, str], *lines: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """Several command lines, one after the other, in one process: its start is what takes the time."""
    command = [sys.executable, "-c", _RUN_VERBS, json.dumps(lines)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return [subprocess.CompletedProcess(*ended) for ended in json.loads(done.stdout)]


async def wait_until_generating(stoa: RunningServer, model_id: str, count: int = 1) -> None:
    """Returns when the model generates so much at once."""
    deadline = time.monotonic() + 60
    while (stats := await stoa.engine.stats(model_id)).running < count:
        assert time.monotonic() < deadline, stats
        await asyncio.sleep(0.01)


async def wait_until_listed(stoa: RunningServer, model_id: str) -> None:
    """Returns when the model host knows the model, loaded or not."""
    deadline = time.monotonic() + 60
    while await status_of(stoa.host, model_id) is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@contextlib.contextmanager
def running_server_with_fake_models(*unloaded: str, extra: dict[str, str] | None = None) -> Iterator[RunningServer]:
    """A ready server over a host with two fakes, `talker` and `embedder`, and more talkers that are not loaded. It and
    all it started are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        models_dir = Path(home) / "models"
        for name in ("talker", *unloaded):
            add_model(models_dir, name, dict(TALKER_CONFIG))
        add_model(models_dir, "embedder", dict(EMBEDDER_CONFIG))
        with running_server(Path(home), host.run_dir, models_dir, load=["talker", "embedder"], extra=extra) as stoa:
            yield stoa


@contextlib.contextmanager
def running_server(
    home: Path,
    run_dir: Path,
    models_dir: Path,
    *,
    load: list[str],
    extra: dict[str, str] | None = None,
    relay: Callable[[str], str] = str,
) -> Iterator[RunningServer]:
    """A ready server with these models loaded. It starts a model host where none runs in `run_dir`. Its database is one
    of its own, or the one that `extra` names, which is empty. `relay` may replace its URL, but not for migrations."""
    extra = extra or {}
    if "DATABASE_URL" in extra:
        environment = _environment(home, run_dir, models_dir, load, extra["DATABASE_URL"]) | extra
        keys = _make_users(environment)
        environment["DATABASE_URL"] = relay(extra["DATABASE_URL"])
    else:
        made, users = once_per_run(make_users)
        shutil.copytree(made, home, dirs_exist_ok=True)
        keys = json.loads(users)
        database_url = relay(_database_url(home, keys.pop("DATABASE")))
        environment = _environment(home, run_dir, models_dir, load, database_url) | extra
    log = home / "server.log"
    process, url = start_server(environment, log)
    try:
        _wait_until_healthy(url, log)
        host, engine = HostClient(run_dir), EngineClient(run_dir)
        yield RunningServer(url, keys, host, engine, environment, models_dir, log)
    finally:
        process.terminate()
        process.wait(45)


def _environment(home: Path, run_dir: Path, models_dir: Path, load: list[str], database_url: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    return kept | {
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "DATABASE_URL": database_url,
        "STOA_HOME": str(home),
        "STOA_RUN_DIR": str(run_dir),
        "STOA_COMPILED_DIR": str(COMPILED_DIR),
        "STOA_MODELS_DIR": str(models_dir),
        "STOA_LOAD": ",".join(load),
    }


def _database_url(home: Path, template: str) -> str:
    """Return the URL of a copy of this database on the test run's server, or of a SQLite file."""
    if not is_postgresql():
        return f"sqlite:///{home / 'stoa.sqlite3'}"
    return create_database(f"served_{uuid.uuid4().hex[:12]}", template=template)


def make_users(home: Path) -> str:
    """Make a home and a database with tables and users, for copies; return the users' keys and the database's name."""
    database_url = _database_url(home, "template1")
    environment = _environment(home, home / "run", home / "models", [], database_url)
    return json.dumps(_make_users(environment) | {"DATABASE": urlsplit(database_url).path[1:]})


def _make_users(environment: dict[str, str]) -> dict[str, str]:
    """With the tables; answers the users' keys."""
    command = [sys.executable, "-c", _MAKE_USERS]
    run = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    keys: dict[str, str] = json.loads(run.stdout)
    return keys


def start_server(environment: dict[str, str], log: Path, *flags: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server on a free port, and its address as its log tells it."""
    command = [sys.executable, "manage_inference.py", "serve", "--port", "0", *flags]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        return process, _address_of(process, log)
    except BaseException:
        process.kill()
        process.wait()
        raise


def _address_of(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        for line in log.read_text().splitlines():
            if line.startswith("{") and (urls := json.loads(line).get("urls")):
                return str(urls[0])
        assert process.poll() is None, f"the server ended: {log.read_text()}"
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def _wait_until_healthy(url: str, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        with contextlib.suppress(httpx2.TransportError):
            answer = httpx2.get(f"{url}/health", timeout=5).json()
            if answer["status"] == "healthy":
                return
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
