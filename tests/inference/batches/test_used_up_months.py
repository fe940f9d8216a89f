"""What a turn does when there are no tokens left for the month."""

import threading

import pytest

from inference.batches.models import Batch, BatchRequest, Lease
from inference.batches.places import WHERE_UNKNOWN
from inference.batches.runner import run_batch
from inference.usage import quotas
from tests.inference.batches.conftest import MakeBatch


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_told_to_end_leaves_the_rest_to_others(make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch):
    batch, ending = make_batch(10 * WHERE_UNKNOWN), threading.Event()

    def used_up(**whose: object) -> str:
        ending.set()  # in the midst of it
        return "The tokens of the month are used up."

    monkeypatch.setattr(quotas, "words_if_used_up", used_up)

    run_batch(batch_pk=batch.pk, worker="w", ending=ending)

    batch.refresh_from_db()
    assert (batch.status, batch.failed) == (Batch.Status.PROCESSING, WHERE_UNKNOWN)
    pending = BatchRequest.objects.filter(batch=batch, status=BatchRequest.Status.PENDING)
    assert (pending.count(), set(pending.values_list("attempts", flat=True))) == (9 * WHERE_UNKNOWN, {0})
    assert not Lease.objects.exists()
