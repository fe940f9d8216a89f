"""A demo started by `deploy/run demo` in a folder of its own, for end-to-end tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil
import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
COMPILED_DIR = CHECKOUT / "var" / "compiled"  # compiled once for all tests
START_TIMEOUT_SECONDS = 300
# One user and its API key send the requests of all tests that share a demo: on a fast machine over 600 a minute.
SHARED_LIMITS = {
    "STOA_REQUESTS_PER_MINUTE": "10000",
    "STOA_KEY_REQUESTS_PER_MINUTE": "10000",
    "STOA_USER_REQUESTS_PER_MINUTE": "10000",
}


@dataclass
class RunningStoa:
    """A running demo. `run_dir` contains the model host's sockets."""

    commerce_url: str
    inference_url: str
    api_key: str
    pid: int
    users: list[dict[str, str]]
    run_dir: Path
    process: subprocess.Popen[bytes]
    tokens: dict[str, str] = field(default_factory=dict)  # by role: sign-ins are limited

    def login(self, role: str) -> str:
        """Return an access token of the demo user with this role."""
        if role not in self.tokens:
            self.tokens[role] = self._sign_in(role)
        return self.tokens[role]

    def _sign_in(self, role: str) -> str:
        user = next(user for user in self.users if user["role"] == role)
        response = httpx2.post(
            f"{self.commerce_url}/api/token", json={"email": user["email"], "password": user["password"]}, timeout=30
        )
        assert response.status_code == 200, response.text
        return str(response.json()["token"])

    def headers(self) -> dict[str, str]:
        """Return the Authorization header with the super admin's API key."""
        return {"Authorization": f"Bearer {self.api_key}"}


def start_stoa(home: Path, **settings: str) -> RunningStoa:
    """Run `deploy/run demo` with its data under `home`; return when all servers are ready."""
    info_file, log = home / "info.json", home / "demo.log"
    info_file.unlink(missing_ok=True)  # of an earlier start
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    for name in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE"):
        environment.pop(name, None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(CHECKOUT / "deploy" / "run"), "demo", "--info", str(info_file)],
            cwd=CHECKOUT,
            env=environment
            | {"STOA_HOME": str(home), "STOA_COMPILED_DIR": str(COMPILED_DIR)}
            | {"STOA_DESCRIPTIONS_MODEL": "stoa-describer"}
            | settings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    try:
        while not info_file.exists():
            assert process.poll() is None, f"the demo ended: {log.read_text()}"
            assert time.monotonic() < deadline, f"the demo did not start: {log.read_text()}"
            time.sleep(0.2)
    except BaseException:  # the time limit of a test among them
        process.terminate()
        process.wait(timeout=60)
        raise
    return RunningStoa(**json.loads(info_file.read_text()), run_dir=home / "var" / "run", process=process)


def stop_stoa(stoa: RunningStoa, number: signal.Signals = signal.SIGTERM) -> list[psutil.Process]:
    """Stop the demo with this signal; return its processes that still run 30 seconds later."""
    supervisor = psutil.Process(stoa.pid)
    family = supervisor.children(recursive=True)
    os.kill(stoa.pid, number)
    stoa.process.wait(timeout=60)
    _, alive = psutil.wait_procs(family, timeout=30)
    return alive


@pytest.fixture(scope="session")
def stoa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStoa]:
    """One demo for all tests that neither stop nor break it."""
    running = start_stoa(tmp_path_factory.mktemp("stoa"), **SHARED_LIMITS)
    yield running
    assert stop_stoa(running) == []
