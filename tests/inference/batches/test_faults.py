"""Rows B1, B2, B8 and B10: workers and models that are killed, ended, or hang, in the middle of a batch."""

import random
import time

import httpx2
import pytest

from tests.inference.batches.workers import (
    all_results,
    attempts,
    ended,
    leases,
    running_worker,
    status,
    submit,
)
from tests.inference.served import ServedStoa

IN_FLIGHT = 32  # twice the fake's slots


def wait_for_progress(stoa: ServedStoa, batch_id: str, more_than: int = 0) -> float:
    """Seconds until more was completed."""
    began = time.monotonic()
    while status(stoa, batch_id)["completed"] <= more_than:
        assert time.monotonic() < began + 200, stoa.log.with_name("worker.log").read_text()[-20000:]
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.timeout(3600)
def test_b1_a_batch_whose_workers_are_killed_is_done_all_the_same(stoa: ServedStoa, whole: bool):
    dice = random.Random(1)
    for run in range(20 if whole else 2):
        batch_id = submit(stoa, *["speak"] * 200)
        with running_worker(stoa) as worker:
            wait_for_progress(stoa, batch_id)
            time.sleep(dice.uniform(0, 0.6))
            worker.kill()
        at_kill = status(stoa, batch_id)["completed"]
        with running_worker(stoa):
            resumed = wait_for_progress(stoa, batch_id, at_kill) if at_kill < 200 else 0.0
            told = ended(stoa, batch_id, seconds=300)

        again = sum(attempts(stoa, batch_id)) - 200
        print(f"B1 run {run}: killed at {at_kill} of 200, resumed after {resumed:.1f} s, {again} computed again")
        assert (told["status"], told["completed"], told["failed"]) == ("completed", 200, 0)
        assert [result["id"] for result in all_results(stoa, batch_id)] == [f"r{place}" for place in range(200)]
        assert again <= IN_FLIGHT


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["die", "kill", "swell"])
def test_b2_a_request_that_kills_its_model_each_time_fails_and_the_others_do_not(
    stoa: ServedStoa, how: str, whole: bool
):
    count, poison = (200, 77) if whole else (60, 21)
    batch_id = submit(stoa, *[how if place == poison else "speak" for place in range(count)])
    with running_worker(stoa):
        told = ended(stoa, batch_id, seconds=500)

    results = all_results(stoa, batch_id)
    assert (told["completed"], told["failed"]) == (count - 1, 1)
    assert [result["id"] for result in results if result["error"]] == [f"r{poison}"]
    assert results[poison]["error"]["code"] == "INFERENCE_FAILED"
    assert attempts(stoa, batch_id)[poison] == 3
    print(f"B2 {how}: {attempts(stoa, batch_id)[poison]} starts, {told['completed']} others completed")


@pytest.mark.timeout(600)
def test_b8_a_worker_that_is_told_to_end_hands_back_what_it_has(stoa: ServedStoa):
    batch_id = submit(stoa, *["speak"] * 400)
    with running_worker(stoa) as worker:
        wait_for_progress(stoa, batch_id)
        began = time.monotonic()
        assert worker.end() == 0
        print(f"B8: exit 0 after {time.monotonic() - began:.1f} s")
    told = status(stoa, batch_id)

    assert 0 < told["completed"] < 400
    assert leases(stoa, batch_id) == 0
    assert sum(attempts(stoa, batch_id)) == told["completed"]
    with running_worker(stoa):
        assert ended(stoa, batch_id)["completed"] == 400
    assert attempts(stoa, batch_id) == [1] * 400


@pytest.mark.timeout(600)
def test_b10_a_request_that_the_model_never_answers_is_late_and_others_go_on(stoa: ServedStoa):
    stalled = submit(stoa, "silence", "speak", timeout=1)
    with running_worker(stoa):
        other = submit(stoa, *["speak"] * 50)
        assert ended(stoa, other)["completed"] == 50
        told = ended(stoa, stalled)

    assert (told["completed"], told["failed"]) == (1, 1)
    assert all_results(stoa, stalled)[0]["error"]["code"] == "TIMEOUT"
    assert attempts(stoa, stalled)[0] == 3


@pytest.mark.timeout(600)
def test_a_model_that_is_not_loaded_is_waited_for(stoa: ServedStoa):
    batch_id = submit(stoa, *["speak"] * 5, model="idle")
    with running_worker(stoa):
        other = submit(stoa, "speak")
        assert ended(stoa, other)["completed"] == 1
        assert status(stoa, batch_id)["completed"] == 0
        loaded = httpx2.post(f"{stoa.url}/models/idle/load", headers=stoa.headers(), timeout=60)
        assert loaded.status_code == 200
        assert ended(stoa, batch_id)["completed"] == 5
    stoa.post("/models/idle/unload")
    assert attempts(stoa, batch_id) == [1] * 5
