"""Pages of results: in the order of the requests, without gaps, and bounded in size."""

from datetime import timedelta

import pytest

from inference.batches import services
from inference.batches.models import Batch
from inference.batches.results import ResultPage, read_results
from inference.batches.worker import leases, recording
from inference.batches.worker.recording import RequestOutcome
from tests.inference.batches.conftest import NOW, MakeBatch

pytestmark = pytest.mark.django_db


def record_results(batch: Batch, *recorded: int, answer: str = "{}") -> None:
    """Record results for these indexes; the other requests become pending again."""
    lease_id = leases.acquire_lease(batch_pk=batch.pk, worker="w", now=NOW)
    assert lease_id is not None
    claimed = leases.claim_requests(lease_id=lease_id, batch_pk=batch.pk, limit=100)
    outcomes = [RequestOutcome(request=claimed[index].pk, answer=answer) for index in recorded]
    recording.record_outcomes(lease_id=lease_id, batch_pk=batch.pk, outcomes=outcomes, now=NOW)
    recording.reclaim_expired_leases(now=NOW + timedelta(minutes=1))


def indexes(page: ResultPage) -> list[int]:
    return [request.index for request in page.requests]


def test_results_after_an_unfinished_request_are_held_back(make_batch: MakeBatch):
    batch = make_batch(5)
    record_results(batch, 0, 1, 3)

    assert indexes(read_results(batch, after=-1)) == [0, 1]
    assert not read_results(batch, after=-1).is_last
    assert indexes(read_results(batch, after=1)) == []

    services.cancel_batch(batch_pk=batch.pk, now=NOW)
    assert indexes(read_results(batch, after=1)) == [3]
    assert read_results(batch, after=1).is_last


def test_a_page_has_the_requested_size_and_knows_if_it_is_the_last(make_batch: MakeBatch):
    batch = make_batch(4)
    record_results(batch, 0, 1, 2, 3)

    first, second = read_results(batch, after=-1, limit=2), read_results(batch, after=1, limit=2)

    assert (indexes(first), first.is_last) == ([0, 1], False)
    assert (indexes(second), second.is_last) == ([2, 3], True)


def test_pages_of_large_answers_have_few_results(make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("inference.batches.results.MAX_PAGE_LENGTH", 250)
    batch = make_batch(4)
    record_results(batch, 0, 1, 2, 3, answer=f'"{"x" * 98}"')

    assert indexes(read_results(batch, after=-1)) == [0, 1]
    monkeypatch.setattr("inference.batches.results.MAX_PAGE_LENGTH", 50)
    assert indexes(read_results(batch, after=1)) == [2]
