"""Batches through a real worker over a real model host, as clients see them."""

import time
from collections.abc import Iterator

import pytest

from tests.inference.batches.workers import LIMIT_S, RunningWorker, all_results, ended, running_worker, submit
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
