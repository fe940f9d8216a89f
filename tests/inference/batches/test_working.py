"""Batches through a real worker over a real model host, as clients see them."""

import json
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.inference.batches.workers import (
    LIMIT_S,
    RunningWorker,
    all_results,
    ended,
    running_worker,
    status,
    submit,
)
from tests.inference.served import ServedStoa, run_manage


@pytest.fixture(scope="module")
def worker(stoa: ServedStoa) -> Iterator[RunningWorker]:
    with running_worker(stoa) as worker:
        yield worker


def test_a_batch_is_done_and_its_results_are_in_order(stoa: ServedStoa, worker: RunningWorker):
    batch_id = submit(stoa, *["speak"] * 100)

    told = ended(stoa, batch_id)
    results = all_results(stoa, batch_id)

    assert (told["status"], told["completed"], told["failed"], told["total"]) == ("completed", 100, 0, 100)
    assert told["usage"] == {"prompt_tokens": 500, "completion_tokens": 500, "total_tokens": 1000}
    assert [result["id"] for result in results] == [f"r{place}" for place in range(100)]
    assert [result["index"] for result in results] == list(range(100))
    assert results[7]["choices"] == [{"text": "w0 w1 w2 w3 w4 ", "index": 0, "finish_reason": "length"}]
    assert results[7]["usage"]["total_tokens"] == 10
    assert (results[7]["status"], results[7]["error"]) == ("completed", None)


def test_a_batchs_tokens_are_in_its_users_ledger(stoa: ServedStoa, worker: RunningWorker):
    def used() -> tuple[int, int, int]:
        total = stoa.get("/usage").json()["total"]
        return total["requests"], total["prompt_tokens"], total["completion_tokens"]

    before = used()
    ended(stoa, submit(stoa, "speak", "long", "speak", max_tokens=3))

    assert [now - then for now, then in zip(used(), before, strict=True)] == [2, 10, 6]


_LIMIT = """
from django.utils import timezone
from inference.usage.quotas import Quota
from shared.accounts.models import User
from shared.accounts.services import set_monthly_limit
user = User.objects.get(email="super_admin@example.com")
used = Quota("user", user.pk, 0, timezone.now().date().replace(day=1)).used()
set_monthly_limit(user=user, tokens={tokens})
"""


def test_what_a_batch_has_not_done_when_the_month_is_used_up_fails_and_says_why(
    stoa: ServedStoa, worker: RunningWorker
):
    def limit(tokens: str) -> None:
        done = run_manage(stoa.environment, "shell", "-v", "0", "-c", _LIMIT.format(tokens=tokens))
        assert done.returncode == 0, done.stderr

    deadline = time.monotonic() + LIMIT_S
    while stoa.get("/batch?status=processing").json()["batches"]:  # which others have left, and would use the month up
        assert time.monotonic() < deadline
        time.sleep(0.1)
    limit("used + 500")  # of which each takes 10; what was done just before may not be counted yet
    try:
        batch_id = submit(stoa, *["speak"] * 600)
        told = ended(stoa, batch_id)
        refused = stoa.post("/batch", {"model": "talker", "requests": [{"id": "a", "prompt": "speak"}]})
    finally:
        limit("None")

    assert (told["status"], told["completed"] + told["failed"]) == ("completed", 600)
    assert 5 <= told["completed"] < 600
    failed = [result for result in all_results(stoa, batch_id) if result["status"] == "failed"]
    assert {result["error"]["code"] for result in failed} == {"RATE_LIMIT_EXCEEDED"}
    assert "tokens a month of your user are used up" in failed[0]["error"]["message"]
    assert refused.status_code == 429


@pytest.mark.timeout(300)
def test_b5_requests_that_are_too_long_fail_and_the_others_do_not(stoa: ServedStoa, worker: RunningWorker):
    prompts = ["long" if place % 20 == 7 else "speak" for place in range(200)]
    batch_id = submit(stoa, *prompts)
    told = ended(stoa, batch_id)

    results = all_results(stoa, batch_id)
    failed = [result for result in results if result["status"] == "failed"]
    assert (told["status"], told["completed"], told["failed"]) == ("completed", 190, 10)
    assert [result["id"] for result in results] == [f"r{place}" for place in range(200)]
    assert [result["index"] for result in failed] == list(range(7, 200, 20))
    assert {result["error"]["code"] for result in failed} == {"CONTEXT_LENGTH_EXCEEDED"}
    assert {(result["choices"], result["usage"]) for result in failed} == {(None, None)}


@pytest.mark.timeout(300)
def test_a_cancelled_batch_keeps_what_is_done(stoa: ServedStoa, worker: RunningWorker):
    batch_id = submit(stoa, *["speak"] * 2000)
    while status(stoa, batch_id)["completed"] == 0:
        pass
    told = stoa.post(f"/batch/{batch_id}/cancel").json()
    done = told["completed"]

    assert told["status"] == "cancelled"
    assert 0 < done < 2000
    assert len(all_results(stoa, batch_id)) == done
    assert stoa.post(f"/batch/{batch_id}/cancel").json() == told
    assert status(stoa, batch_id) == told


@pytest.mark.timeout(300)
def test_results_follow_live_as_events_and_resume_where_a_client_left(stoa: ServedStoa, worker: RunningWorker):
    batch_id = submit(stoa, *["speak"] * 300)
    url, headers = f"{stoa.url}/batch/{batch_id}/results", stoa.headers() | {"Accept": "text/event-stream"}
    seen = []
    with httpx2.stream("GET", url, headers=headers, timeout=120) as events:
        assert events.headers["content-type"] == "text/event-stream"
        for line in events.iter_lines():
            if line.startswith("id: "):
                seen.append(int(line[4:]))
            if len(seen) == 100:
                break
    rest, data = [], []
    with httpx2.stream("GET", url, headers=headers | {"Last-Event-ID": "99"}, timeout=120) as events:
        for line in events.iter_lines():
            if line.startswith("id: "):
                rest.append(int(line[4:]))
            elif line.startswith("data: "):
                data.append(json.loads(line[6:]))

    assert seen == list(range(100))
    assert rest == list(range(100, 300))
    assert [result["id"] for result in data[:-1]] == [f"r{place}" for place in range(100, 300)]
    assert data[-1] == {"done": True, "status": "completed", "total": 300, "completed": 300, "failed": 0}
    assert stoa.get(f"/batch/{batch_id}/results?limit=7").json()["next"] == 6
    wrong = httpx2.get(url, headers=headers | {"Last-Event-ID": "x"}, timeout=30)
    assert wrong.status_code == 400


@pytest.mark.timeout(300)
def test_results_are_lines_for_who_asks_for_lines(stoa: ServedStoa, worker: RunningWorker):
    batch_id = submit(stoa, *["speak"] * 1200, max_tokens=1)
    ended(stoa, batch_id)
    headers = stoa.headers() | {"Accept": "application/x-ndjson"}
    answer = httpx2.get(f"{stoa.url}/batch/{batch_id}/results?after=99", headers=headers, timeout=60)
    lines = [json.loads(line) for line in answer.text.splitlines()]

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [line["index"] for line in lines] == list(range(100, 1200))
    assert lines == all_results(stoa, batch_id)[100:]


def test_each_request_may_override_the_batchs_parameters(stoa: ServedStoa, worker: RunningWorker):
    own = [{}, {"max_tokens": 2}, {"prompt": "introduce", "n": 2, "max_tokens": 1, "priority": -4}]
    requests = [{"id": str(place), "prompt": "speak"} | one for place, one in enumerate(own)]
    asked = {"model": "talker", "requests": requests, "max_tokens": 3, "timeout": 50}
    batch_id = stoa.post("/batch", asked).json()["batch_id"]
    ended(stoa, batch_id)
    three, two, introduced = all_results(stoa, batch_id)

    assert three["choices"][0]["text"] == "w0 w1 w2 "
    assert two["choices"][0]["text"] == "w0 w1 "
    assert [choice["index"] for choice in introduced["choices"]] == [0, 1]
    assert "n=2 timeout=50.0 priority=-4" in introduced["choices"][0]["text"]
