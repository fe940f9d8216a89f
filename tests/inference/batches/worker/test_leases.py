"""Leases: requests are claimed once, and requeued requests use up no attempt."""

import pytest

from inference.batches.models import BatchRequest, Lease
from inference.batches.worker import leases
from tests.inference.batches.conftest import NOW, MakeBatch
from tests.inference.batches.lease_helpers import acquire, claim

pytestmark = pytest.mark.django_db


def test_requests_are_claimed_once_and_in_order(make_batch: MakeBatch):
    batch = make_batch(5)
    mine, others = acquire(batch, "one"), acquire(batch, "two")

    first, second, third = claim(batch, mine, 2), claim(batch, others, 2), claim(batch, mine, 2)

    assert first + second + third == list(BatchRequest.objects.order_by("index").values_list("pk", flat=True))
    assert claim(batch, others) == []


def test_a_worker_has_one_claiming_lease_on_a_batch(make_batch: MakeBatch):
    batch = make_batch()
    lease_id = acquire(batch, "one")

    assert leases.acquire_lease(batch_pk=batch.pk, worker="one", now=NOW) is None
    assert leases.renew_lease(lease_id=lease_id, now=NOW, stop_claiming=True)
    assert leases.acquire_lease(batch_pk=batch.pk, worker="one", now=NOW) is not None


def test_a_requeued_request_has_used_no_attempt(make_batch: MakeBatch):
    batch = make_batch(2)
    lease_id = acquire(batch)
    first, _ = claim(batch, lease_id)
    leases.requeue_requests(lease_id=lease_id, batch_pk=batch.pk, requests=[first])
    leases.release_lease(lease_id=lease_id, batch_pk=batch.pk)

    assert set(BatchRequest.objects.values_list("status", "attempts", "is_isolated")) == {("pending", 0, False)}
    assert not Lease.objects.exists()
