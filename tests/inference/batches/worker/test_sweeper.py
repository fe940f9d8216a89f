"""The sweeper ends overdue, abandoned and oversized batches, and old batches are deleted."""

import tracemalloc
from datetime import timedelta

import pytest
from pytest_django import Settings

from inference.batches import services
from inference.batches.models import Batch, BatchRequest, BatchResult
from inference.batches.worker import leases, recording, sweeper
from inference.batches.worker.recording import RequestOutcome
from shared.accounts.models import User
from tests.inference.batches.conftest import NOW, MakeBatch
from tests.inference.batches.lease_helpers import acquire, claim, counts, record, statuses

pytestmark = pytest.mark.django_db


def test_a_batch_expires_after_24_hours(make_batch: MakeBatch):
    batch = make_batch(3)
    lease_id = acquire(batch)
    first, _ = claim(batch, lease_id, 2)
    record(batch, lease_id, first)

    assert sweeper.expire_batches(now=NOW + timedelta(hours=23)) == 0
    assert sweeper.expire_batches(now=NOW + timedelta(hours=24)) == 1

    assert counts(batch) == ("expired", 1, 2, 3)
    assert set(BatchResult.objects.exclude(error_code="").values_list("error_code", flat=True)) == {"TIMEOUT"}


def test_a_large_batch_expires_in_little_memory(make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sweeper, "RESULT_CHUNK_COUNT", 100)
    batch = make_batch(3000)

    tracemalloc.start()
    sweeper.expire_batches(now=NOW + timedelta(hours=24))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert counts(batch) == ("expired", 0, 3000, 3000)
    assert BatchResult.objects.count() == 3000
    assert peak_bytes < 1_000_000


def test_an_old_batch_is_deleted_with_its_requests_and_results(make_batch: MakeBatch):
    old, young = make_batch(2), make_batch(2)
    lease_id = acquire(old)
    record(old, lease_id, *claim(old, lease_id))
    services.cancel_batch(batch_pk=young.pk, now=NOW + timedelta(days=1))

    assert sweeper.delete_old_batches(now=NOW + timedelta(days=7)) == 1

    assert list(Batch.objects.all()) == [young]
    assert set(BatchRequest.objects.values_list("batch", flat=True)) == {young.pk}
    assert not BatchResult.objects.exists()


def test_batches_of_a_deactivated_user_are_cancelled(make_batch: MakeBatch, user: User):
    batch, other = make_batch(3), make_batch(1)
    lease = acquire(batch)
    first, *_ = claim(batch, lease, limit=2)
    assert record(batch, lease, first)
    record(other, other_lease := acquire(other), *claim(other, other_lease))
    assert sweeper.cancel_batches_of_inactive_users(now=NOW) == 0

    user.is_active = False
    user.save()
    assert sweeper.cancel_batches_of_inactive_users(now=NOW) == 1

    assert counts(batch) == ("cancelled", 1, 0, 3)
    assert statuses(batch) == ["completed", "cancelled", "cancelled"]
    assert counts(other) == ("completed", 1, 0, 1)
    assert not leases.renew_lease(lease_id=lease, now=NOW)


def test_a_batch_whose_results_exceed_the_storage_limit_ends(make_batch: MakeBatch, settings: Settings):
    batch, idle = make_batch(3), make_batch(1)
    settings.MAX_BATCH_BYTES_PER_USER = batch.size + idle.size + 9
    lease = acquire(batch)
    first, second, _ = claim(batch, lease)
    answers = [RequestOutcome(request=pk, answer='{"\u00e4": 1}') for pk in (first, second)]  # nine bytes
    recording.record_outcomes(lease_id=lease, batch_pk=batch.pk, outcomes=answers[:1], now=NOW)
    assert sweeper.fail_batches_over_storage(now=NOW) == 0

    recording.record_outcomes(lease_id=lease, batch_pk=batch.pk, outcomes=answers[1:], now=NOW)
    assert sweeper.fail_batches_over_storage(now=NOW) == 2

    assert counts(batch) == ("completed", 2, 1, 3)
    assert counts(idle) == ("failed", 0, 1, 1)
    [failed] = BatchResult.objects.filter(request__batch=batch, answer="")
    assert failed.error_code == "INVALID_REQUEST"
    assert f"may take up to {settings.MAX_BATCH_BYTES_PER_USER} bytes together" in failed.error_message
    assert sweeper.fail_batches_over_storage(now=NOW) == 0
