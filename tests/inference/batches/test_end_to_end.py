"""Batches through a real server, worker and model host."""

import json
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.inference.batches.workers import (
    TIMEOUT_SECONDS,
    RunningWorker,
    get_results,
    get_status,
    running_worker,
    submit_batch,
    wait_until_ended,
)
from tests.inference.running_server import RunningServer, run_manage


@pytest.fixture(scope="module")
def worker(stoa: RunningServer) -> Iterator[RunningWorker]:
    with running_worker(stoa) as worker:
        yield worker


def test_a_batch_completes_with_its_results_in_order(stoa: RunningServer, worker: RunningWorker):
    batch_id = submit_batch(stoa, *["speak"] * 100)

    batch = wait_until_ended(stoa, batch_id)
    results = get_results(stoa, batch_id)

    assert (batch["status"], batch["completed"], batch["failed"], batch["total"]) == ("completed", 100, 0, 100)
    assert batch["usage"] == {"prompt_tokens": 500, "completion_tokens": 500, "total_tokens": 1000}
    assert [result["id"] for result in results] == [f"r{place}" for place in range(100)]
    assert [result["index"] for result in results] == list(range(100))
    assert results[7]["choices"] == [{"text": "w0 w1 w2 w3 w4 ", "index": 0, "finish_reason": "length"}]
    assert results[7]["usage"]["total_tokens"] == 10
    assert (results[7]["status"], results[7]["error"]) == ("completed", None)


def test_a_batch_is_counted_in_its_users_usage(stoa: RunningServer, worker: RunningWorker):
    def used() -> tuple[int, int, int]:
        total = stoa.get("/usage").json()["total"]
        return total["requests"], total["prompt_tokens"], total["completion_tokens"]

    before = used()
    wait_until_ended(stoa, submit_batch(stoa, "speak", "long", "speak", max_tokens=3))

    assert [now - then for now, then in zip(used(), before, strict=True)] == [2, 10, 6]


_LIMIT = """
from django.utils import timezone
from inference.usage.quotas import MonthlyQuota
from shared.accounts.models import User
from shared.accounts.services import set_monthly_token_limit
user = User.objects.get(email="super_admin@example.com")
used = MonthlyQuota("user", user.pk, 0, timezone.now().date().replace(day=1)).read_used_tokens()
set_monthly_token_limit(user=user, tokens={tokens})
"""


def test_requests_beyond_the_monthly_quota_fail_with_the_reason(stoa: RunningServer, worker: RunningWorker):
    def limit(tokens: str) -> None:
        done = run_manage(stoa.environment, "shell", "-v", "0", "-c", _LIMIT.format(tokens=tokens))
        assert done.returncode == 0, done.stderr

    deadline = time.monotonic() + TIMEOUT_SECONDS
    while stoa.get("/batch?status=processing").json()["batches"]:  # left by other tests; they would use up the quota
        assert time.monotonic() < deadline
        time.sleep(0.1)
    limit("used + 500")  # each request takes 10; recent usage may not be counted yet
    try:
        batch_id = submit_batch(stoa, *["speak"] * 600)
        batch = wait_until_ended(stoa, batch_id)
        refused = stoa.post("/batch", {"model": "talker", "requests": [{"id": "a", "prompt": "speak"}]})
    finally:
        limit("None")

    assert (batch["status"], batch["completed"] + batch["failed"]) == ("completed", 600)
    assert 5 <= batch["completed"] < 600
    failed = [result for result in get_results(stoa, batch_id) if result["status"] == "failed"]
    assert {result["error"]["code"] for result in failed} == {"RATE_LIMIT_EXCEEDED"}
    assert "Your user has used its quota of" in failed[0]["error"]["message"]
    assert refused.status_code == 429


@pytest.mark.timeout(300)
def test_b5_only_requests_that_are_too_long_fail(stoa: RunningServer, worker: RunningWorker):
    prompts = ["long" if place % 20 == 7 else "speak" for place in range(200)]
    batch_id = submit_batch(stoa, *prompts)
    batch = wait_until_ended(stoa, batch_id)

    results = get_results(stoa, batch_id)
    failed = [result for result in results if result["status"] == "failed"]
    assert (batch["status"], batch["completed"], batch["failed"]) == ("completed", 190, 10)
    assert [result["id"] for result in results] == [f"r{place}" for place in range(200)]
    assert [result["index"] for result in failed] == list(range(7, 200, 20))
    assert {result["error"]["code"] for result in failed} == {"CONTEXT_LENGTH_EXCEEDED"}
    assert {(result["choices"], result["usage"]) for result in failed} == {(None, None)}


@pytest.mark.timeout(300)
def test_a_cancelled_batch_keeps_finished_results(stoa: RunningServer, worker: RunningWorker):
    batch_id = submit_batch(stoa, *["speak"] * 2000)
    while get_status(stoa, batch_id)["completed"] == 0:
        pass
    batch = stoa.post(f"/batch/{batch_id}/cancel").json()
    done = batch["completed"]

    assert batch["status"] == "cancelled"
    assert 0 < done < 2000
    assert len(get_results(stoa, batch_id)) == done
    assert stoa.post(f"/batch/{batch_id}/cancel").json() == batch
    assert get_status(stoa, batch_id) == batch


@pytest.mark.timeout(300)
def test_results_stream_as_events_and_resume_after_a_disconnect(stoa: RunningServer, worker: RunningWorker):
    batch_id = submit_batch(stoa, *["speak"] * 300)
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
def test_results_are_json_lines_if_the_client_accepts_them(stoa: RunningServer, worker: RunningWorker):
    batch_id = submit_batch(stoa, *["speak"] * 1200, max_tokens=1)
    wait_until_ended(stoa, batch_id)
    headers = stoa.headers() | {"Accept": "application/x-ndjson"}
    answer = httpx2.get(f"{stoa.url}/batch/{batch_id}/results?after=99", headers=headers, timeout=60)
    lines = [json.loads(line) for line in answer.text.splitlines()]

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [line["index"] for line in lines] == list(range(100, 1200))
    assert lines == get_results(stoa, batch_id)[100:]


def test_a_request_may_override_the_batchs_parameters(stoa: RunningServer, worker: RunningWorker):
    own = [{}, {"max_tokens": 2}, {"prompt": "introduce", "n": 2, "max_tokens": 1, "priority": -4}]
    requests = [{"id": str(place), "prompt": "speak"} | one for place, one in enumerate(own)]
    body = {"model": "talker", "requests": requests, "max_tokens": 3, "timeout": 50}
    batch_id = stoa.post("/batch", body).json()["batch_id"]
    wait_until_ended(stoa, batch_id)
    three, two, introduced = get_results(stoa, batch_id)

    assert three["choices"][0]["text"] == "w0 w1 w2 "
    assert two["choices"][0]["text"] == "w0 w1 "
    assert [choice["index"] for choice in introduced["choices"]] == [0, 1]
    assert "n=2 timeout=50.0 priority=-4" in introduced["choices"][0]["text"]
