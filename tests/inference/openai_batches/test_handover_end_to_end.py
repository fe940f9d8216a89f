"""A batch that is handed over whole to a second Stoa, by workers of which one is killed."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.serving.processes.local_redis import LocalRedis
from tests.benchmarks.pools._pools import UNLIMITED
from tests.inference.batches.workers import query_database, running_server_with_broker, running_worker
from tests.inference.openai_batches.clients import COMPLETION, create_batch, download_lines, wait_until_ended
from tests.inference.running_server import RunningServer, run_commands, running_server

COUNT = 40
STATES = "SELECT state || ' ' || error FROM inference_openai_batches_handover"
TIMEOUT_SECONDS = 90


@contextmanager
def running_front(home: Path, member: RunningServer, broker: str) -> Iterator[RunningServer]:
    """Run a server whose `talker` is the member's, to which it hands batches."""
    extra = UNLIMITED | {"REDIS_URL": broker}
    (home / "models").mkdir(parents=True)
    with running_server(home, Path(member.environment["STOA_RUN_DIR"]), home / "models", load=[], extra=extra) as front:
        key = home / "key"
        key.write_text(member.headers()["Authorization"].removeprefix("Bearer "))
        options = ["--kind", "stoa", "--batches", "--api-key-file", str(key)]
        [added] = run_commands(front.environment, ["pools", "add", "talker", f"{member.url}/v1", *options])
        assert added.returncode == 0, added.stderr
        time.sleep(4.5)  # until the server has read it
        yield front


def wait_until_state(front: RunningServer, state: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while query_database(front, STATES) != [state]:
        log = front.log.with_name("worker.log")
        assert time.monotonic() < deadline, (query_database(front, STATES), log.read_text()[-4000:])
        time.sleep(0.1)


@pytest.mark.no_database
@pytest.mark.timeout(300)
def test_a_second_stoa_runs_a_batch_and_a_killed_worker_loses_nothing_of_it():
    with (
        tempfile.TemporaryDirectory(prefix="stoa") as folder,
        LocalRedis(Path(folder) / "redis") as redis,
        LocalRedis(Path(folder) / "other-redis") as other_redis,
        running_server_with_broker(UNLIMITED | {"REDIS_URL": redis.url}) as member,
        running_front(Path(folder) / "front", member, other_redis.url) as front,
    ):
        with running_worker(front) as worker:
            too_long = {"prompt": "long", "n": 1}
            created = create_batch(front, COMPLETION, [{}] * (COUNT - 1) + [too_long])
            wait_until_state(front, "running ")
            worker.kill()
        with running_worker(member), running_worker(front):
            batch = wait_until_ended(front, created["id"])
            wait_until_state(front, "ended ")
        counts = {"total": COUNT, "completed": COUNT - 1, "failed": 1}
        assert (batch["status"], batch["request_counts"]) == ("completed", counts)
        output, [failure] = (download_lines(front, batch[name]) for name in ("output_file_id", "error_file_id"))
        assert [line["custom_id"] for line in output] == [f"r{number}" for number in range(COUNT - 1)]
        assert {line["response"]["body"]["model"] for line in output} == {"talker"}
        assert (failure["custom_id"], failure["response"]["status_code"]) == (f"r{COUNT - 1}", 400)
        assert failure["response"]["body"]["error"]["code"] == "context_length_exceeded"
        assert query_database(member, "SELECT count(*) FROM inference_openai_batches_filebatch") == [1]
        assert query_database(member, "SELECT completed FROM inference_batches_batch") == [COUNT - 1]
        assert member.get("/v1/files").json()["data"] == []
