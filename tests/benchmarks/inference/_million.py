"""A batch of a million requests, uploaded in parts and run here or by a second Stoa: times, memory and database."""

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx2
import psutil

from inference.engine.models.kernel_build import FOLDER_VARIABLE
from shared.serving.processes.local_redis import LocalRedis
from tests.inference.batches.workers import RunningWorker, query_database, start_worker
from tests.inference.running_server import RunningServer, run_commands, running_server

MODEL = "stoa-describer"
SMALL_COUNT = 10_000
PART_BYTES = 16 * 1024 * 1024
MEBIBYTE = 2**20
GIGABYTE = 10**9
LOOK_SECONDS = 2.0
LIMITS = {
    "STOA_MAX_FILE_BYTES": str(8 * GIGABYTE),
    "STOA_MAX_FILE_BYTES_PER_USER": str(100 * GIGABYTE),
    "STOA_MAX_BATCH_BYTES_PER_USER": str(100 * GIGABYTE),
    "STOA_MAX_QUEUED_BATCH_TOKENS_PER_USER": str(10**10),
    **{
        f"STOA_{owner}_{limit}": "100000000"
        for owner in ("KEY", "USER")
        for limit in ("REQUESTS_PER_MINUTE", "TOKENS_PER_MINUTE", "CONCURRENCY_LIMIT")
    },
}


@dataclass(frozen=True)
class LargeBatch:
    """Seconds and bytes of a batch. Peaks are of resident memory, from the upload to the last byte of the results."""

    count: int
    upload_s: float
    accept_s: float
    work_s: float
    files_s: float
    web_peak: int
    worker_peak: int
    database_bytes: int
    file_bytes: int


class Stoa:
    """A running model server with a worker."""

    def __init__(self, served: RunningServer, worker: RunningWorker) -> None:
        self.served = served
        self._client = httpx2.Client(base_url=served.url, headers=served.headers(), timeout=3600)
        self._worker = psutil.Process(worker.process.pid)
        port = int(served.url.rpartition(":")[2])
        listening = (one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
        self._web = psutil.Process(next(one.pid for one in listening if one.laddr.port == port and one.pid))

    def run(self, count: int) -> LargeBatch:
        """Run a batch of so many requests, check its results and return what it took."""
        for process in (self._web, self._worker):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak starts anew
        before, began = self.database_bytes(), time.perf_counter()
        file_id, file_bytes = self._upload(count)
        uploaded = time.perf_counter()
        body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        answer = self._client.post("/v1/batches", json=body)
        answer.raise_for_status()
        batch, accepted = answer.json(), time.perf_counter()
        if batch["status"] != "in_progress":
            raise SystemExit(f"The batch is not accepted: {batch}")
        batch = self._wait(batch["id"], "in_progress")
        worked = time.perf_counter()
        batch = self._wait(batch["id"], "finalizing")
        if batch["request_counts"] != {"total": count, "completed": count, "failed": 0}:
            raise SystemExit(f"The batch did not work: {batch}")
        written = time.perf_counter()
        file_bytes += self._check_results(batch["output_file_id"], count)
        return LargeBatch(
            count,
            uploaded - began,
            accepted - uploaded,
            worked - accepted,
            written - worked,
            peak_bytes(self._web),
            peak_bytes(self._worker),
            self.database_bytes() - before,
            file_bytes,
        )

    def database_bytes(self) -> int:
        return sum(file.stat().st_size for file in Path(self.served.environment["STOA_HOME"]).glob("stoa.sqlite3*"))

    def _upload(self, count: int) -> tuple[str, int]:
        """Upload the requests in parts; return the id of the file and its bytes."""
        with tempfile.TemporaryFile() as content:
            write_requests(content, count)
            size = content.tell()
            content.seek(0)
            announced = {
                "bytes": size,
                "filename": "million.jsonl",
                "mime_type": "application/jsonl",
                "purpose": "batch",
            }
            upload = self._client.post("/v1/uploads", json=announced)
            upload.raise_for_status()
            path, parts = f"/v1/uploads/{upload.json()['id']}", []
            while part := content.read(PART_BYTES):
                stored = self._client.post(f"{path}/parts", files={"data": part})
                stored.raise_for_status()
                parts.append(stored.json()["id"])
            completed = self._client.post(f"{path}/complete", json={"part_ids": parts})
            completed.raise_for_status()
            return completed.json()["file"]["id"], size

    def _wait(self, batch_id: str, status: str) -> dict[str, object]:
        """Wait until the batch has another status. Print what is done once a minute."""
        printed = time.monotonic()
        while (batch := self._client.get(f"/v1/batches/{batch_id}").json())["status"] == status:
            if time.monotonic() > printed + 60:
                printed = time.monotonic()
                print(f"{batch['request_counts']['completed']} requests are done.", flush=True)
            time.sleep(LOOK_SECONDS)
        return dict(batch)

    def _check_results(self, file_id: str, count: int) -> int:
        """Check that each request has one result, in the order of the file. Return the bytes of the results."""
        size = number = 0
        with self._client.stream("GET", f"/v1/files/{file_id}/content") as response:
            response.raise_for_status()
            for line in response.iter_lines():
                size += len(line) + 1
                if json.loads(line)["custom_id"] != f"request-{number}":
                    raise SystemExit(f"Line {number} is {line[:100]}.")
                number += 1
        if number != count:
            raise SystemExit(f"There are {number} results of {count}.")
        return size


def peak_bytes(process: psutil.Process) -> int:
    """Return the peak of resident memory since it was reset."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def write_requests(content: IO[bytes], count: int) -> None:
    for number in range(count):
        body = {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": f"Lamp {number} is"}]}
        line = {"custom_id": f"request-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        content.write(json.dumps(line).encode() + b"\n")


@contextlib.contextmanager
def running_stoa(folder: Path, count: int, *, is_front: bool) -> Iterator[Stoa]:
    """Run a model server and a worker: with the built-in model, or as a front without models."""
    home = folder / ("front" if is_front else "models")
    home.mkdir()
    with LocalRedis(home / "redis") as redis:
        extra = LIMITS | {
            "REDIS_URL": redis.url,
            "STOA_COMPILED_DIR": os.environ[FOLDER_VARIABLE],
            "STOA_MAX_BATCH_REQUESTS": str(count),
        }
        (home / "models").mkdir()
        load = [] if is_front else [MODEL]
        with running_server(home, home / "run", home / "models", load=load, extra=extra) as served:
            worker = start_worker(served.environment, home / "worker.log")
            try:
                yield Stoa(served, worker)
            finally:
                worker.end()


def add_member(front: Stoa, member: Stoa, folder: Path) -> None:
    """Make the member a pool of the front, to which whole batches are handed."""
    key = folder / "key"
    key.write_text(member.served.headers()["Authorization"].removeprefix("Bearer "))
    options = ["--kind", "stoa", "--batches", "--api-key-file", str(key)]
    [added] = run_commands(front.served.environment, ["pools", "add", MODEL, f"{member.served.url}/v1", *options])
    if added.returncode:
        raise SystemExit(added.stderr)
    time.sleep(4.5)  # until the server has read it


def measure(count: int, *, is_handed_over: bool) -> None:
    """Print what a batch of so many requests takes beside one of SMALL_COUNT."""
    with tempfile.TemporaryDirectory(prefix="stoa-million-") as name, contextlib.ExitStack() as running:
        folder = Path(name)
        stoa = running.enter_context(running_stoa(folder, count, is_front=False))
        if is_handed_over:
            member, stoa = stoa, running.enter_context(running_stoa(folder, count, is_front=True))
            add_member(stoa, member, folder)
        batches = [stoa.run(min(SMALL_COUNT, count)), stoa.run(count)]
        if is_handed_over:
            states = query_database(stoa.served, "SELECT state || error FROM inference_openai_batches_handover")
            if states != ["ended"] * len(batches):
                raise SystemExit(f"The member did not run them: {states}")
    print("\n" + table(batches))


def table(batches: list[LargeBatch]) -> str:
    rows = {
        "upload in parts, s": [f"{one.upload_s:.1f}" for one in batches],
        "accepted in, s": [f"{one.accept_s:.1f}" for one in batches],
        "run in, s": [f"{one.work_s:.0f}" for one in batches],
        "requests per second": [f"{one.count / one.work_s:.0f}" for one in batches],
        "files written in, s": [f"{one.files_s:.1f}" for one in batches],
        "peak of the web process, MiB": [f"{one.web_peak / MEBIBYTE:.0f}" for one in batches],
        "peak of the worker, MiB": [f"{one.worker_peak / MEBIBYTE:.0f}" for one in batches],
        "database, bytes a request": [f"{one.database_bytes / one.count:.0f}" for one in batches],
        "files, bytes a request": [f"{one.file_bytes / one.count:.0f}" for one in batches],
    }
    head = "| | " + " | ".join(f"{one.count} requests" for one in batches) + " |"
    lines = [f"| {name} | " + " | ".join(values) + " |" for name, values in rows.items()]
    return "\n".join([head, "|---" * (len(batches) + 1) + "|", *lines])
