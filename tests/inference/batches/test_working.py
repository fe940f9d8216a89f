"""Batches through a real worker over a real model host, as clients see them."""

from collections.abc import Iterator

import pytest

from tests.inference.batches.workers import RunningWorker, all_results, ended, running_worker, submit
from tests.inference.served import ServedStoa


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
