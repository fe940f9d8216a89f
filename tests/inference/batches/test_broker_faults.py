"""Rows B3, B9 and D6: a broker that is away, forgets, or never heard of a batch."""

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

from inference.batches.dispatch import RUN
from inference.batches.outcomes import FINISH
from inference.config.celery import app
from shared.serving.broker import broker_url
from shared.serving.local_redis import LocalRedis
from tests.inference.batches.workers import (
    all_results,
    ended,
    running_worker,
    served_with_broker,
    status,
    submit,
)
from tests.inference.engine.processes import REPOSITORY
from tests.inference.served import ServedStoa
from tests.inference.sockets import hear, say, signed_in

NO_HANG_S = 9  # less than the broker says nothing for


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalRedis]:
    """One that is ours to kill."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        redis = LocalRedis(Path(folder) / "redis")
        redis.start()
        yield redis
        redis.stop()


@pytest.fixture(scope="module")
def fragile(broker: LocalRedis) -> Iterator[ServedStoa]:
    """A server whose broker is that one."""
    with served_with_broker({"REDIS_URL": broker.url}) as stoa:
        yield stoa


@contextlib.contextmanager
def away(broker: LocalRedis) -> Iterator[None]:
    """It is gone for the time of the block, and comes back with nothing remembered."""
    broker.stop()
    try:
        yield
    finally:
        broker.start()


@pytest.mark.timeout(600)
def test_b3_a_batch_is_accepted_while_the_broker_is_away_and_done_when_it_is_back(
    fragile: ServedStoa, broker: LocalRedis
):
    with running_worker(fragile):
        assert ended(fragile, submit(fragile, "speak"))["completed"] == 1
        with away(broker):
            accepted = [submit(fragile, *["speak"] * 5) for _ in range(5)]
        began = time.monotonic()
        assert [ended(fragile, batch_id)["completed"] for batch_id in accepted] == [5] * 5
        print(f"B3: done {time.monotonic() - began:.1f} s after the broker was back")


@pytest.mark.timeout(600)
def test_b3_a_worker_does_batches_while_the_broker_is_away(fragile: ServedStoa, broker: LocalRedis):
    with running_worker(fragile):
        assert ended(fragile, submit(fragile, "speak"))["completed"] == 1
        with away(broker):
            began = time.monotonic()
            batches = [submit(fragile, *["speak"] * 50) for _ in range(3)]
            assert [ended(fragile, batch_id)["completed"] for batch_id in batches] == [50] * 3
            print(f"B3: done {time.monotonic() - began:.1f} s after they were accepted, without a broker")


@pytest.mark.timeout(600)
def test_b3_a_batch_whose_server_died_before_it_sent_for_a_worker_is_found(fragile: ServedStoa, whole: bool):
    count = 50 if whole else 6
    command = [sys.executable, "-m", "tests.inference.batches.killed", str(count)]
    done = subprocess.run(command, cwd=REPOSITORY, env=fragile.environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    batches = json.loads(done.stdout)
    assert len(batches) == count

    with running_worker(fragile):
        began = time.monotonic()
        assert {ended(fragile, batch_id, seconds=300)["completed"] for batch_id in batches} == {2}
        print(
            f"B3: {count} batches of killed servers done after {time.monotonic() - began:.1f} s, worker start included"
        )


@pytest.mark.timeout(600)
def test_b9_a_broker_that_forgets_everything_in_mid_batch_costs_nothing(fragile: ServedStoa, broker: LocalRedis):
    batch_id = submit(fragile, *["speak"] * 200)
    with running_worker(fragile):
        while status(fragile, batch_id)["completed"] == 0:
            time.sleep(0.05)
        with away(broker):
            later = submit(fragile, *["speak"] * 20)
        began = time.monotonic()
        assert ended(fragile, batch_id)["completed"] == 200
        assert ended(fragile, later)["completed"] == 20
        print(f"B9: both done {time.monotonic() - began:.1f} s after the broker was back")

    assert [result["id"] for result in all_results(fragile, batch_id)] == [f"r{place}" for place in range(200)]


def test_what_takes_moments_goes_before_turns_at_batches(broker: LocalRedis):
    with app.connection_for_write(broker_url(broker.url)) as connection, connection.SimpleQueue("apart") as queue:
        for task in (RUN, RUN, FINISH):
            app.send_task(task, kwargs={"batch_pk": 1}, queue="apart", connection=connection, ignore_result=True)
        brought = [queue.get(block=False).headers["task"] for _ in range(3)]

    assert brought == [FINISH, RUN, RUN]


def ask(stoa: ServedStoa) -> int:
    """The status of an interactive request."""
    body = {"model": "talker", "prompt": "speak", "max_tokens": 2}
    return httpx2.post(f"{stoa.url}/inference", json=body, headers=stoa.headers(), timeout=60).status_code


@contextlib.contextmanager
def broken(broker: LocalRedis, fault: str) -> Iterator[None]:
    """It is gone, says nothing for ten seconds, or its memory is full; whole again after the block."""
    if fault == "gone":
        with away(broker):
            yield
        return
    with redis.Redis.from_url(broker.url, socket_timeout=30) as store:
        if fault == "paused":
            store.client_pause(10_000)
            yield
            store.ping()  # it answers again
        else:
            [(_, most)] = store.config_get("maxmemory").items()
            store.config_set("maxmemory", 1)
            yield
            store.config_set("maxmemory", most)


FAULTS = ["gone", "paused", "full"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
def test_d6_a_broker_that_is_gone_paused_or_full_costs_no_batch_and_no_error(
    fragile: ServedStoa, broker: LocalRedis, fault: str
):
    batch_id = submit(fragile, *["speak"] * 200)
    with running_worker(fragile):
        while status(fragile, batch_id)["completed"] == 0:
            time.sleep(0.05)
        with broken(broker, fault):
            later = submit(fragile, *["speak"] * 20)
            assert ask(fragile) in (200, 503)
            time.sleep(5)
        began = time.monotonic()
        assert ended(fragile, batch_id)["completed"] == 200
        assert ended(fragile, later)["completed"] == 20
        assert ask(fragile) == 200
        print(f"D6 {fault}: both done {time.monotonic() - began:.1f} s after it was over")
    assert "Traceback" not in fragile.log.read_text()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
def test_d6_a_socket_is_answered_while_the_broker_is_gone_paused_or_full(
    fragile: ServedStoa, broker: LocalRedis, fault: str
):
    asyncio.run(_speak_in(fragile, broker, fault))
    assert "Traceback" not in fragile.log.read_text()


async def _speak_in(stoa: ServedStoa, broker: LocalRedis, fault: str) -> None:
    asked = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak", "max_tokens": 3, "stream": False}
    async with signed_in(stoa) as early:
        with broken(broker, fault):
            began = time.monotonic()
            async with signed_in(stoa) as late:
                await say(early, asked)
                await say(late, asked)
                answers = [await hear(early), await hear(late)]
            took = time.monotonic() - began
        assert {answer["type"] for answer in answers} <= {"complete", "error"}, answers
        assert took < NO_HANG_S
        print(f"D6 {fault}: two sockets heard {[answer['type'] for answer in answers]} within {took:.1f} s")
        await say(early, asked)
        assert (await hear(early))["type"] == "complete"
