"""A run whose user has used up the monthly quota."""

import threading

import pytest

from inference.batches.models import Batch, BatchRequest, Lease
from inference.batches.worker.runner import DEFAULT_CONCURRENCY, run_batch
from inference.usage import quotas
from tests.inference.batches.conftest import MakeBatch


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_shuts_down_stops_failing_requests_over_quota(
    make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
):
    batch, ending = make_batch(10 * DEFAULT_CONCURRENCY), threading.Event()

    def used_up(**owner: object) -> str:
        ending.set()  # during the run
        return "The tokens of the month are used up."

    monkeypatch.setattr(quotas, "find_used_up_message", used_up)

    run_batch(batch_pk=batch.pk, worker="w", ending=ending)

    batch.refresh_from_db()
    assert (batch.status, batch.failed) == (Batch.Status.PROCESSING, DEFAULT_CONCURRENCY)
    pending = BatchRequest.objects.filter(batch=batch, status=BatchRequest.Status.PENDING)
    assert (pending.count(), set(pending.values_list("attempts", flat=True))) == (9 * DEFAULT_CONCURRENCY, {0})
    assert not Lease.objects.exists()
