"""Rows B3, B9 and D6: a broker that is unavailable, loses its data, or never received a message."""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import redis

from inference.batches.dispatch import RUN_TASK, WRITE_FILES_TASK
from inference.config.celery import app
from shared.serving.processes.broker import broker_url
from shared.serving.processes.local_redis import LocalRedis
from tests.inference.batches.workers import (
    get_results,
    get_status,
    running_server_with_broker,
    running_worker,
    submit_batch,
    wait_until_ended,
)
from tests.inference.engine.processes import REPOSITORY
from tests.inference.running_server import RunningServer
from tests.inference.websocket_client import authenticated_websocket, receive_message, send_messages

NO_HANG_S = 9  # shorter than the pause of the broker

pytestmark = pytest.mark.no_database


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalRedis]:
    """Yield a broker that tests may stop."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        redis = LocalRedis(Path(folder) / "redis")
        redis.start()
        yield redis
        redis.stop()


@pytest.fixture(scope="module")
def fragile(broker: LocalRedis) -> Iterator[RunningServer]:
    """Yield a server that uses this broker."""
    with running_server_with_broker({"REDIS_URL": broker.url}) as stoa:
        yield stoa


@contextlib.contextmanager
def stopped_broker(broker: LocalRedis) -> Iterator[None]:
    """Stop the broker for the time of the block; it restarts without data."""
    broker.stop()
    try:
        yield
    finally:
        broker.start()


@pytest.mark.timeout(600)
def test_b3_a_batch_accepted_without_a_broker_completes_when_it_is_back(fragile: RunningServer, broker: LocalRedis):
    with running_worker(fragile):
        assert wait_until_ended(fragile, submit_batch(fragile, "speak"))["completed"] == 1
        with stopped_broker(broker):
            accepted = [submit_batch(fragile, *["speak"] * 5) for _ in range(5)]
        began = time.monotonic()
        assert [wait_until_ended(fragile, batch_id)["completed"] for batch_id in accepted] == [5] * 5
        print(f"B3: done {time.monotonic() - began:.1f} s after the broker was back")


@pytest.mark.timeout(600)
def test_b3_a_worker_completes_batches_without_a_broker(fragile: RunningServer, broker: LocalRedis):
    with running_worker(fragile):
        assert wait_until_ended(fragile, submit_batch(fragile, "speak"))["completed"] == 1
        with stopped_broker(broker):
            began = time.monotonic()
            batches = [submit_batch(fragile, *["speak"] * 50) for _ in range(3)]
            assert [wait_until_ended(fragile, batch_id)["completed"] for batch_id in batches] == [50] * 3
            print(f"B3: done {time.monotonic() - began:.1f} s after they were accepted, without a broker")


@pytest.mark.timeout(600)
def test_b3_a_batch_whose_server_died_before_dispatch_completes(fragile: RunningServer, whole: bool):
    count = 50 if whole else 6
    command = [sys.executable, "-m", "tests.inference.batches.worker.killed_server", str(count)]
    done = subprocess.run(command, cwd=REPOSITORY, env=fragile.environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    batches = json.loads(done.stdout)
    assert len(batches) == count

    with running_worker(fragile):
        began = time.monotonic()
        assert {wait_until_ended(fragile, batch_id, seconds=300)["completed"] for batch_id in batches} == {2}
        print(
            f"B3: {count} batches of killed servers done after {time.monotonic() - began:.1f} s, worker start included"
        )


@pytest.mark.timeout(600)
def test_b9_a_broker_that_loses_its_data_loses_no_result(fragile: RunningServer, broker: LocalRedis):
    batch_id = submit_batch(fragile, *["speak"] * 200)
    with running_worker(fragile):
        while get_status(fragile, batch_id)["completed"] == 0:
            time.sleep(0.05)
        with stopped_broker(broker):
            later = submit_batch(fragile, *["speak"] * 20)
        began = time.monotonic()
        assert wait_until_ended(fragile, batch_id)["completed"] == 200
        assert wait_until_ended(fragile, later)["completed"] == 20
        print(f"B9: both done {time.monotonic() - began:.1f} s after the broker was back")

    assert [result["id"] for result in get_results(fragile, batch_id)] == [f"r{place}" for place in range(200)]


def test_short_tasks_are_delivered_before_batch_runs(broker: LocalRedis):
    with app.connection_for_write(broker_url(broker.url)) as connection, connection.SimpleQueue("apart") as queue:
        for task in (RUN_TASK, RUN_TASK, WRITE_FILES_TASK):
            app.send_task(task, kwargs={"batch_pk": 1}, queue="apart", connection=connection, ignore_result=True)
        brought = [queue.get(block=False).headers["task"] for _ in range(3)]

    assert brought == [WRITE_FILES_TASK, RUN_TASK, RUN_TASK]


def request_inference(stoa: RunningServer) -> int:
    """Return the status code of an interactive request."""
    body = {"model": "talker", "prompt": "speak", "max_tokens": 2}
    return httpx2.post(f"{stoa.url}/inference", json=body, headers=stoa.headers(), timeout=60).status_code


@contextlib.contextmanager
def faulty_broker(broker: LocalRedis, fault: str) -> Iterator[None]:
    """Stop the broker, pause it for ten seconds, or fill its memory, for the time of the block."""
    if fault == "gone":
        with stopped_broker(broker):
            yield
        return
    with redis.Redis.from_url(broker.url, socket_timeout=30) as store:
        if fault == "paused":
            store.client_pause(10_000)
            yield
            store.ping()  # returns when the pause is over
        else:
            [(_, most)] = store.config_get("maxmemory").items()
            store.config_set("maxmemory", 1)
            yield
            store.config_set("maxmemory", most)


FAULTS = ["gone", "paused", "full"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
def test_d6_a_broker_fault_loses_no_batch_and_causes_no_error(fragile: RunningServer, broker: LocalRedis, fault: str):
    batch_id = submit_batch(fragile, *["speak"] * 200)
    with running_worker(fragile):
        while get_status(fragile, batch_id)["completed"] == 0:
            time.sleep(0.05)
        with faulty_broker(broker, fault):
            later = submit_batch(fragile, *["speak"] * 20)
            assert request_inference(fragile) in (200, 503)
            time.sleep(5)
        began = time.monotonic()
        assert wait_until_ended(fragile, batch_id)["completed"] == 200
        assert wait_until_ended(fragile, later)["completed"] == 20
        assert request_inference(fragile) == 200
        print(f"D6 {fault}: both done {time.monotonic() - began:.1f} s after it was over")
    assert "Traceback" not in fragile.log.read_text()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
def test_d6_a_websocket_is_answered_during_a_broker_fault(fragile: RunningServer, broker: LocalRedis, fault: str):
    asyncio.run(_converse_during(fragile, broker, fault))
    assert "Traceback" not in fragile.log.read_text()


async def _converse_during(stoa: RunningServer, broker: LocalRedis, fault: str) -> None:
    message = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak", "max_tokens": 3, "stream": False}
    async with authenticated_websocket(stoa) as early:
        with faulty_broker(broker, fault):
            began = time.monotonic()
            async with authenticated_websocket(stoa) as late:
                await send_messages(early, message)
                await send_messages(late, message)
                answers = [await receive_message(early), await receive_message(late)]
            took = time.monotonic() - began
        assert {answer["type"] for answer in answers} <= {"complete", "error"}, answers
        assert took < NO_HANG_S
        print(f"D6 {fault}: two sockets heard {[answer['type'] for answer in answers]} within {took:.1f} s")
        await send_messages(early, message)
        assert (await receive_message(early))["type"] == "complete"
