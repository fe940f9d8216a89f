"""Rows B1, B2, B8 and B10: workers and models that are killed, shut down or hang during a batch."""

import random
import time

import httpx2
import pytest

from tests.inference.batches.workers import (
    count_leases,
    get_attempts,
    get_results,
    get_status,
    running_worker,
    submit_batch,
    wait_until_ended,
)
from tests.inference.running_server import RunningServer

IN_FLIGHT = 32  # twice the fake model's slots


def wait_for_progress(stoa: RunningServer, batch_id: str, more_than: int = 0) -> float:
    """Return the seconds until more requests are completed."""
    began = time.monotonic()
    while get_status(stoa, batch_id)["completed"] <= more_than:
        assert time.monotonic() < began + 200, stoa.log.with_name("worker.log").read_text()[-20000:]
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.timeout(3600)
def test_b1_a_batch_completes_although_its_workers_are_killed(stoa: RunningServer, whole: bool):
    rng = random.Random(1)
    for run in range(20 if whole else 1):
        batch_id = submit_batch(stoa, *["speak"] * 200)
        with running_worker(stoa) as worker:
            wait_for_progress(stoa, batch_id)
            time.sleep(rng.uniform(0, 0.6))
            worker.kill()
        at_kill = get_status(stoa, batch_id)["completed"]
        with running_worker(stoa):
            resumed = wait_for_progress(stoa, batch_id, at_kill) if at_kill < 200 else 0.0
            batch = wait_until_ended(stoa, batch_id, seconds=300)

        again = sum(get_attempts(stoa, batch_id)) - 200
        print(f"B1 run {run}: killed at {at_kill} of 200, resumed after {resumed:.1f} s, {again} computed again")
        assert (batch["status"], batch["completed"], batch["failed"]) == ("completed", 200, 0)
        assert [result["id"] for result in get_results(stoa, batch_id)] == [f"r{place}" for place in range(200)]
        assert again <= IN_FLIGHT


@pytest.mark.no_database
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["die", "kill", "swell"])
def test_b2_only_the_request_that_kills_its_model_fails(stoa: RunningServer, how: str, whole: bool):
    count, poison = (200, 77) if whole else (60, 21)
    batch_id = submit_batch(stoa, *[how if place == poison else "speak" for place in range(count)])
    with running_worker(stoa):
        batch = wait_until_ended(stoa, batch_id, seconds=500)

    results = get_results(stoa, batch_id)
    assert (batch["completed"], batch["failed"]) == (count - 1, 1)
    assert [result["id"] for result in results if result["error"]] == [f"r{poison}"]
    assert results[poison]["error"]["code"] == "INFERENCE_FAILED"
    assert get_attempts(stoa, batch_id)[poison] == 3
    print(f"B2 {how}: {get_attempts(stoa, batch_id)[poison]} starts, {batch['completed']} others completed")


@pytest.mark.timeout(600)
def test_b8_a_worker_that_shuts_down_requeues_its_requests(stoa: RunningServer):
    batch_id = submit_batch(stoa, *["speak"] * 400)
    with running_worker(stoa) as worker:
        wait_for_progress(stoa, batch_id)
        began = time.monotonic()
        assert worker.end() == 0
        print(f"B8: exit 0 after {time.monotonic() - began:.1f} s")
    batch = get_status(stoa, batch_id)

    assert 0 < batch["completed"] < 400
    assert count_leases(stoa, batch_id) == 0
    assert sum(get_attempts(stoa, batch_id)) == batch["completed"]
    with running_worker(stoa):
        assert wait_until_ended(stoa, batch_id)["completed"] == 400
    assert get_attempts(stoa, batch_id) == [1] * 400


@pytest.mark.no_database
@pytest.mark.timeout(600)
def test_b10_a_request_without_an_answer_times_out_and_others_go_on(stoa: RunningServer):
    stalled = submit_batch(stoa, "silence", "speak", timeout=1)
    with running_worker(stoa):
        other = submit_batch(stoa, *["speak"] * 50)
        assert wait_until_ended(stoa, other)["completed"] == 50
        batch = wait_until_ended(stoa, stalled)

    assert (batch["completed"], batch["failed"]) == (1, 1)
    assert get_results(stoa, stalled)[0]["error"]["code"] == "TIMEOUT"
    assert get_attempts(stoa, stalled)[0] == 3


@pytest.mark.no_database
@pytest.mark.timeout(600)
def test_a_batch_waits_for_a_model_that_is_not_loaded(stoa: RunningServer):
    batch_id = submit_batch(stoa, *["speak"] * 5, model="idle")
    with running_worker(stoa):
        other = submit_batch(stoa, "speak")
        assert wait_until_ended(stoa, other)["completed"] == 1
        assert get_status(stoa, batch_id)["completed"] == 0
        loaded = httpx2.post(f"{stoa.url}/models/idle/load", headers=stoa.headers(), timeout=60)
        assert loaded.status_code == 200
        assert wait_until_ended(stoa, batch_id)["completed"] == 5
    stoa.post("/models/idle/unload")
    assert get_attempts(stoa, batch_id) == [1] * 5
