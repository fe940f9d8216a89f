"""Batches through the API, a worker and the database, beside the engine alone.

The model, prompts and lengths are the same, and the two take turns.

It also prints the time to accept 50,000 requests, the time per request in batches of 100 to 10,000, the memory growth
of the worker and the web process, and the size of the database.

`--million` instead runs a file of a million requests of one token by the built-in model, with `--quick` 20,000, beside
one of 10,000. With `--hand-over` a second Stoa runs them, as a member of a pool that takes whole batches.
"""

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import psutil

from inference.builtin import DESCRIBER
from inference.engine import LoadOptions
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from shared.serving.processes.local_redis import LocalRedis
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference import _million
from tests.benchmarks.inference._engines import BenchmarkEngine, configurations, prompts, save_random
from tests.inference.batches.workers import RunningWorker, query_database, start_worker
from tests.inference.running_server import RunningServer, running_server

CHECKOUT = Path(__file__).resolve().parents[3]
PROMPT = 32
VOCABULARY = 100
TOKENS = {"stoa-describer": 32, "small": 32}
SLOTS = 16
ACCEPTED = 50_000
LOOKS_EVERY_S = 1.0  # each look takes from the cores that the model would have; the batch's row says when it ended
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Job:
    """Timing of a batch: `accept_s` until the response, `work_s` from there to its end."""

    accept_s: float
    work_s: float
    tokens: int

    @property
    def rate(self) -> float:
        return self.tokens / self.work_s


class Service:
    """A server and a worker, with their memory and database size."""

    def __init__(self, served: RunningServer, worker: RunningWorker) -> None:
        self._served = served
        self._client = httpx2.Client(base_url=served.url, headers=served.headers(), timeout=300)
        self._worker = psutil.Process(worker.process.pid)
        port = int(served.url.rpartition(":")[2])
        self._web = psutil.Process(
            next(
                connection.pid
                for connection in psutil.net_connections("tcp")
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid
            )
        )

    def submit(self, model: str, texts: list[str], tokens: int) -> tuple[str, float]:
        requests = [{"id": str(place), "prompt": text} for place, text in enumerate(texts)]
        shared = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True, "repeat_penalty": 1.0}
        began = time.perf_counter()
        answer = self._client.post("/batch", json={"model": model, "requests": requests} | shared)
        answer.raise_for_status()
        return str(answer.json()["batch_id"]), time.perf_counter() - began

    def run(self, model: str, texts: list[str], tokens: int) -> Job:
        batch_id, accept_s = self.submit(model, texts, tokens)
        began = time.time()
        while (status := self._client.get(f"/batch/{batch_id}").json())["status"] == "processing":
            time.sleep(LOOKS_EVERY_S)
        if status["completed"] != len(texts):
            raise SystemExit(f"The batch did not work: {status}")
        [ended_at] = query_database(
            self._served,
            f"SELECT ended_at FROM inference_batches_batch WHERE batch_id = '{batch_id}'",  # noqa: S608 an id of the server
        )
        took = datetime.fromisoformat(ended_at).replace(tzinfo=UTC).timestamp() - began
        return Job(accept_s, took, status["usage"]["completion_tokens"])

    def cancel(self, batch_id: str) -> None:
        self._client.post(f"/batch/{batch_id}/cancel")

    def costs(self) -> str:
        """Return the memory of the two processes and the size of the database."""
        files = Path(self._served.environment["STOA_HOME"]).glob("stoa.sqlite3*")
        size = sum(file.stat().st_size for file in files) / MEBIBYTE
        memory = [process.memory_info().rss / MEBIBYTE for process in (self._worker, self._web)]
        return f"worker {memory[0]:.0f} MiB, web {memory[1]:.0f} MiB, database {size:.0f} MiB"


def texts_of(prompt_ids: list[tuple[int, ...]], turn: int) -> list[str]:
    """Return new prompts each time, so that no prefix is in the cache."""
    return [f"{turn}{''.join(chr(33 + token % 90) for token in ids)}" for ids in prompt_ids]


def compare(service: Service, name: str, folder: Path, count: int, rounds: int) -> Iterator[Comparison]:
    """Yield the tokens per second of a batch beside those of the engine with the same requests."""
    alone = BenchmarkEngine(folder, max_sequences=SLOTS, max_queue=count, max_queue_tokens=2**30)
    prompt_ids, tokens = prompts(count, PROMPT, VOCABULARY), TOKENS[name]
    batch, engine = [], []
    for turn in range(rounds):
        batch.append(service.run(name, texts_of(prompt_ids, turn), tokens).rate)
        engine.append(alone.run(prompt_ids, tokens).tokens_per_second)
    alone.close()
    print(f"{name}, {count} requests: {service.costs()}")
    yield Comparison(f"{name}, a batch of {count}", statistics.median(batch), statistics.median(engine), "tokens/s")


def growth(service: Service, name: str, counts: tuple[int, ...]) -> Iterator[Comparison]:
    """Yield the time per request in a larger batch beside that in the smallest."""
    times: dict[int, float] = {}
    for turn, count in enumerate(counts):
        job = service.run(name, texts_of(prompts(count, PROMPT, VOCABULARY), 100 + turn), TOKENS[name])
        times[count] = job.work_s / count * 1000
        print(f"{name}, {count} requests: accepted in {job.accept_s * 1000:.0f} ms; {service.costs()}")
        if len(times) > 1:
            yield Comparison(f"a request in a job of {count}", times[count], times[counts[0]], "ms")


def accept(service: Service, name: str) -> None:
    batch_id, took = service.submit(name, [f"The lamp number {place}" for place in range(ACCEPTED)], 8)
    service.cancel(batch_id)
    print(f"{ACCEPTED} requests are accepted in {took:.1f} s; {service.costs()}")


@contextlib.contextmanager
def running_service(home: Path, models: Path) -> Iterator[tuple[RunningServer, Service]]:
    with LocalRedis(home / "redis") as redis:
        extra = {"REDIS_URL": redis.url, "STOA_COMPILED_DIR": os.environ[FOLDER_VARIABLE]}
        with running_server(home, home / "run", models, load=[], extra=extra) as served:
            worker = start_worker(served.environment, home / "worker.log")
            try:
                yield served, Service(served, worker)
            finally:
                worker.end()


def main() -> None:
    flags = {"--million": "run a file of a million requests", "--hand-over": "let a second Stoa run it"}
    given = arguments(__doc__ or "", flags)
    rounds, count, sizes = (1, 1000, (100, 1000)) if given.quick else (3, 2000, (100, 1000, 10_000))
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    if given.million or given.hand_over:
        _million.measure(20_000 if given.quick else 1_000_000, is_handed_over=given.hand_over)
        return
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory() as folder:
        home, models = Path(folder), Path(folder) / "models"
        folders = {"stoa-describer": (DESCRIBER, count)}
        if not given.quick:
            folders["small"] = (save_random(models / "small", configurations()["small"]), 200)
        models.mkdir(exist_ok=True)
        with running_service(home, models) as (served, service):
            for name, (path, requests) in folders.items():
                asyncio.run(served.host.load(name, path, LoadOptions(max_sequences=SLOTS)))
                service.run(name, texts_of(prompts(SLOTS, PROMPT, VOCABULARY), 99), TOKENS[name])  # warms up
                results += compare(service, name, path, requests, rounds)
                if name == "stoa-describer":
                    results += growth(service, name, sizes)
                    accept(service, name)
                asyncio.run(served.host.unload(name))
    publish(results, given.json)


if __name__ == "__main__":
    main()
