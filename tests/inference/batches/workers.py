"""Real worker processes of a running server, and client calls for batches."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from tests.inference.engine.processes import REPOSITORY, running_host
from tests.inference.running_server import TALKER_CONFIG, RunningServer, add_model, running_server

TIMEOUT_SECONDS = 90


@dataclass
class RunningWorker:
    """A worker started by `celery`, in its own process group."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


def start_worker(environment: dict[str, str], log: Path, *options: str) -> RunningWorker:
    command = [sys.executable, "-m", "celery", "-A", "inference.config.celery", "worker", *options]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    return RunningWorker(process, log)


@contextlib.contextmanager
def running_worker(stoa: RunningServer, *options: str) -> Iterator[RunningWorker]:
    """Run a worker for the time of the block."""
    worker = start_worker(stoa.environment, stoa.log.with_name("worker.log"), *options)
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.kill()


@contextlib.contextmanager
def running_server_with_broker(broker: dict[str, str]) -> Iterator[RunningServer]:
    """Run a server and a host with the model `talker`, with the broker of these environment variables."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        models_dir = Path(home) / "models"
        add_model(models_dir, "talker", dict(TALKER_CONFIG))
        with running_server(Path(home), host.run_dir, models_dir, load=["talker"], extra=broker) as stoa:
            yield stoa


def query_database(stoa: RunningServer, query: str) -> list[Any]:
    """Return the first column of a query on the server's database."""
    url = stoa.environment["DATABASE_URL"]
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as database:
            return [row[0] for row in database.execute(query)]
    with psycopg.connect(url, autocommit=True) as connection:
        return [row[0] for row in connection.execute(query.encode())]


def get_attempts(stoa: RunningServer, batch_id: str) -> list[int]:
    """Return the attempts of each request, in order."""
    return query_database(
        stoa,
        "SELECT attempts FROM inference_batches_batchrequest WHERE batch_id = "  # noqa: S608 an id of ours
        f"(SELECT id FROM inference_batches_batch WHERE batch_id = '{batch_id}') ORDER BY \"index\"",
    )


def count_leases(stoa: RunningServer, batch_id: str) -> int:
    """Return the number of leases on the batch."""
    of_batch = f"(SELECT id FROM inference_batches_batch WHERE batch_id = '{batch_id}')"  # noqa: S608 an id of ours
    (count,) = query_database(stoa, f"SELECT count(*) FROM inference_batches_lease WHERE batch_id = {of_batch}")  # noqa: S608
    return int(count)


def submit_batch(stoa: RunningServer, *prompts: str, **more: Any) -> str:
    """Submit a batch of these prompts, with request ids `r0`, `r1` and so on, and return its id."""
    requests = [{"id": f"r{place}", "prompt": prompt} for place, prompt in enumerate(prompts)]
    response = stoa.post("/batch", {"model": "talker", "requests": requests, "max_tokens": 5} | more)
    assert response.status_code == 200, response.text
    return str(response.json()["batch_id"])


def get_status(stoa: RunningServer, batch_id: str) -> dict[str, Any]:
    response = stoa.get(f"/batch/{batch_id}")
    assert response.status_code == 200, response.text
    return dict(response.json())


def wait_until_ended(stoa: RunningServer, batch_id: str, seconds: float = TIMEOUT_SECONDS) -> dict[str, Any]:
    """Return the batch's final status. Fail if a count ever decreases or exceeds the total."""
    deadline = time.monotonic() + seconds
    before = 0, 0
    while True:
        batch = get_status(stoa, batch_id)
        now = batch["completed"], batch["failed"]
        assert now[0] >= before[0], (before, batch)
        assert now[1] >= before[1], (before, batch)
        assert sum(now) <= batch["total"]
        if batch["status"] != "processing":
            return batch
        before = now
        assert time.monotonic() < deadline, (batch, stoa.log.with_name("worker.log").read_text()[-60000:])
        time.sleep(0.1)


def get_results(stoa: RunningServer, batch_id: str) -> list[dict[str, Any]]:
    """Return all results, read page by page."""
    results: list[dict[str, Any]] = []
    after: int | None = -1
    while after is not None:
        response: httpx2.Response = stoa.get(f"/batch/{batch_id}/results?after={after}&limit=1000")
        assert response.status_code == 200, response.text
        results += response.json()["results"]
        after = response.json()["next"]
    return results
