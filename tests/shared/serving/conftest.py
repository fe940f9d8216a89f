"""Real servers on free ports, each in a process of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.services import ignore_on_postgresql as pytest_ignore_collect  # noqa: F401  not about the database

CHECKOUT = Path(__file__).resolve().parents[3]


@dataclass
class Served:
    """A running server: its process, address and log lines."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str = ""
    port: int = 0

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def wait_for_line(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait for the first log line of this event with these fields, and return it."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(json.JSONDecodeError):  # an incomplete line
                for line in self.lines():
                    if line["event"] == event and all(line.get(name) == value for name, value in fields.items()):
                        return line
            assert self.process.poll() is None or event == "stopped", self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(f"no {event} in {self.log.read_text()}")

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return httpx2.get(self.url + path, timeout=60, **options)


StartServer = Callable[..., Served]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Return a function that starts `tests.shared.serving.served` with its options."""
    with running_servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a file that read neither its memory nor others' lines in its log."""
    with running_servers(tmp_path_factory.mktemp("served")) as start:
        yield start()


@contextmanager
def running_servers(folder: Path) -> Iterator[StartServer]:
    started: list[Served] = []

    def start(**given: Any) -> Served:
        log = folder / f"server-{len(started)}.log"
        environment = os.environ | {"SERVED": json.dumps(given), "STOA_METRICS_DIR": str(folder)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.shared.serving.served"], cwd=CHECKOUT, stderr=output, env=environment
            )
        served = Served(process, log)
        started.append(served)
        served.url = served.wait_for_line("serving")["urls"][0]
        if served.url.startswith("http"):
            served.port = int(served.url.rpartition(":")[2])
        return served

    try:
        yield start
    finally:
        for served in started:
            served.process.kill()
            served.process.wait()
