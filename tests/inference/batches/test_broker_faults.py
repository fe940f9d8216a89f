"""Rows B3, B9 and D6: a broker that is away, forgets, or never heard of a batch."""

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

from shared.serving.local_redis import LocalRedis
from tests.inference.batches.workers import (
    all_results,
    ended,
    running_worker,
    status,
    submit,
)
from tests.inference.engine.processes import REPOSITORY, running_host
from tests.inference.served import TALKER_CONFIG, ServedStoa, add_model, served_stoa


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
    with tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        models_dir = Path(home) / "models"
        add_model(models_dir, "talker", dict(TALKER_CONFIG))
        extra = {"REDIS_URL": broker.url}
        with served_stoa(Path(home), host.run_dir, models_dir, load=["talker"], extra=extra) as stoa:
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


def ask(stoa: ServedStoa) -> int:
    """The status of an interactive request."""
    body = {"model": "talker", "prompt": "speak", "max_tokens": 2}
    return httpx2.post(f"{stoa.url}/inference", json=body, headers=stoa.headers(), timeout=60).status_code


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["paused", "full"])
def test_d6_a_broker_that_is_paused_or_full_costs_no_batch_and_no_error(
    fragile: ServedStoa, broker: LocalRedis, fault: str
):
    batch_id = submit(fragile, *["speak"] * 200)
    with running_worker(fragile), redis.Redis.from_url(broker.url, socket_timeout=30) as store:
        while status(fragile, batch_id)["completed"] == 0:
            time.sleep(0.05)
        if fault == "paused":
            store.client_pause(10_000)
            later = submit(fragile, *["speak"] * 20)
            assert ask(fragile) in (200, 503)
            store.ping()  # it answers again
        else:
            [(_, most)] = store.config_get("maxmemory").items()
            store.config_set("maxmemory", 1)
            later = submit(fragile, *["speak"] * 20)
            assert ask(fragile) in (200, 503)
            time.sleep(5)
            store.config_set("maxmemory", most)
        began = time.monotonic()
        assert ended(fragile, batch_id)["completed"] == 200
        assert ended(fragile, later)["completed"] == 20
        assert ask(fragile) == 200
        print(f"D6 {fault}: both done {time.monotonic() - began:.1f} s after it was over")
    assert "Traceback" not in fragile.log.read_text()
