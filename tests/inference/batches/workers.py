"""Real worker processes beside a served Stoa, and what clients do with batches."""

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
from tests.inference.served import TALKER_CONFIG, ServedStoa, add_model, served_stoa

LIMIT_S = 90


@dataclass
class RunningWorker:
    """A worker as `celery` starts it, in a process group of its own."""

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
def running_worker(stoa: ServedStoa, *options: str) -> Iterator[RunningWorker]:
    """A worker for the time of the block; gone afterwards."""
    worker = start_worker(stoa.environment, stoa.log.with_name("worker.log"), *options)
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.kill()


@contextlib.contextmanager
def served_with_broker(broker: dict[str, str]) -> Iterator[ServedStoa]:
    """A server, and a host with the model `talker`, whose broker is the one of these variables."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        models_dir = Path(home) / "models"
        add_model(models_dir, "talker", dict(TALKER_CONFIG))
        with served_stoa(Path(home), host.run_dir, models_dir, load=["talker"], extra=broker) as stoa:
            yield stoa


def stored(stoa: ServedStoa, query: str) -> list[Any]:
    """The first column of what another program reads from the server's database."""
    url = stoa.environment["DATABASE_URL"]
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as database:
            return [row[0] for row in database.execute(query)]
    with psycopg.connect(url, autocommit=True) as connection:
        return [row[0] for row in connection.execute(query.encode())]


def attempts(stoa: ServedStoa, batch_id: str) -> list[int]:
    """How often each request was begun and not handed back, in order."""
    return stored(
        stoa,
        "SELECT attempts FROM inference_batches_batchrequest WHERE batch_id = "  # noqa: S608 an id of ours
        f"(SELECT id FROM inference_batches_batch WHERE batch_id = '{batch_id}') ORDER BY \"index\"",
    )


def leases(stoa: ServedStoa, batch_id: str) -> int:
    """How many have taken requests of the batch and not handed them back."""
    of_batch = f"(SELECT id FROM inference_batches_batch WHERE batch_id = '{batch_id}')"  # noqa: S608 an id of ours
    (count,) = stored(stoa, f"SELECT count(*) FROM inference_batches_lease WHERE batch_id = {of_batch}")  # noqa: S608
    return int(count)


def submit(stoa: ServedStoa, *prompts: str, **more: Any) -> str:
    """The id of a batch of these prompts, whose requests are `r0`, `r1` and so on."""
    requests = [{"id": f"r{place}", "prompt": prompt} for place, prompt in enumerate(prompts)]
    answer = stoa.post("/batch", {"model": "talker", "requests": requests, "max_tokens": 5} | more)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["batch_id"])


def status(stoa: ServedStoa, batch_id: str) -> dict[str, Any]:
    answer = stoa.get(f"/batch/{batch_id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ended(stoa: ServedStoa, batch_id: str, seconds: float = LIMIT_S) -> dict[str, Any]:
    """The batch's last status. Counts that went back, or were too many, on the way there fail."""
    deadline = time.monotonic() + seconds
    before = 0, 0
    while True:
        told = status(stoa, batch_id)
        now = told["completed"], told["failed"]
        assert now[0] >= before[0], (before, told)
        assert now[1] >= before[1], (before, told)
        assert sum(now) <= told["total"]
        if told["status"] != "processing":
            return told
        before = now
        assert time.monotonic() < deadline, (told, stoa.log.with_name("worker.log").read_text()[-60000:])
        time.sleep(0.1)


def all_results(stoa: ServedStoa, batch_id: str) -> list[dict[str, Any]]:
    """Every result, page by page."""
    results: list[dict[str, Any]] = []
    after: int | None = -1
    while after is not None:
        answer: httpx2.Response = stoa.get(f"/batch/{batch_id}/results?after={after}&limit=1000")
        assert answer.status_code == 200, answer.text
        results += answer.json()["results"]
        after = answer.json()["next"]
    return results
