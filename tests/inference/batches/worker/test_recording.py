"""Results are recorded once under a valid lease, and crashed requests run in isolation."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from inference.batches.models import Batch, BatchRequest, BatchResult
from inference.batches.worker import leases, recording
from inference.batches.worker.recording import RequestOutcome
from tests.inference.batches.conftest import NOW, MakeBatch
from tests.inference.batches.lease_helpers import acquire, claim, claim_isolated, counts, record, statuses

pytestmark = pytest.mark.django_db


def test_the_last_result_ends_the_batch(make_batch: MakeBatch):
    batch = make_batch(3)
    lease_id = acquire(batch)
    first, second, third = claim(batch, lease_id)

    assert record(batch, lease_id, first)
    assert record(batch, lease_id, second, error_code="CONTEXT_LENGTH_EXCEEDED")
    assert counts(batch) == ("processing", 1, 1, 3)
    assert not record(batch, lease_id, third)

    assert counts(batch) == ("completed", 2, 1, 3)
    assert batch.ended_at == NOW
    assert statuses(batch) == ["completed", "failed", "completed"]


def test_a_batch_whose_requests_all_fail_has_failed(make_batch: MakeBatch):
    batch = make_batch(2)
    lease_id = acquire(batch)

    record(batch, lease_id, *claim(batch, lease_id), error_code="INVALID_REQUEST")

    assert counts(batch) == ("failed", 0, 2, 2)


def test_outcomes_of_reclaimed_requests_are_dropped(make_batch: MakeBatch):
    batch = make_batch(2)
    late = acquire(batch, "late")
    first, second = claim(batch, late)
    recording.reclaim_expired_leases(now=NOW + timedelta(minutes=1))
    lease_id = acquire(batch, "next")
    assert claim_isolated(batch, lease_id) == [first]

    assert not record(batch, late, first, second)
    record(batch, lease_id, first, second)

    assert counts(batch) == ("processing", 1, 0, 2)
    assert list(BatchResult.objects.values_list("pk", flat=True)) == [first]


def test_the_database_refuses_second_results_and_wrong_counts(make_batch: MakeBatch):
    batch = make_batch(2)
    lease_id = acquire(batch)
    first, _ = claim(batch, lease_id)
    record(batch, lease_id, first)

    again = BatchResult(request_id=first, answer="{}", processing_time_ms=0, created_at=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        again.save(force_insert=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        Batch.objects.update(failed=2)
    with pytest.raises(IntegrityError), transaction.atomic():
        Batch.objects.update(status="completed", ended_at=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        BatchRequest.objects.filter(pk=first).update(status="running")


def test_an_error_message_with_nul_is_recorded(make_batch: MakeBatch):
    batch = make_batch(1)
    lease_id = acquire(batch)
    [request] = claim(batch, lease_id)
    outcome = RequestOutcome(request=request, error_code="INVALID_REQUEST", error_message="It says: \x00.")

    assert not recording.record_outcomes(lease_id=lease_id, batch_pk=batch.pk, outcomes=[outcome], now=NOW)

    assert counts(batch) == ("failed", 0, 1, 1)
    assert BatchResult.objects.get().error_message == "It says: \ufffd."


def test_crashed_requests_run_isolated_after_the_others(make_batch: MakeBatch):
    batch = make_batch(3)
    claim(batch, acquire(batch, "dead"), 2)
    assert recording.reclaim_expired_leases(now=NOW + timedelta(seconds=31)) == 1

    lease_id = acquire(batch)
    first, second, third = BatchRequest.objects.order_by("index").values_list("pk", flat=True)
    assert claim(batch, lease_id) == [third]
    assert claim_isolated(batch, lease_id) == [first]
    assert claim_isolated(batch, acquire(batch, "another")) == []
    assert claim_isolated(batch, lease_id) == [second]


def test_b2_a_request_that_crashes_isolated_fails_at_its_third_attempt(make_batch: MakeBatch):
    batch = make_batch(2)
    poison, innocent = claim(batch, acquire(batch))
    recording.reclaim_expired_leases(now=NOW + timedelta(minutes=1))
    starts = 1
    while BatchRequest.objects.get(pk=poison).status == "pending":
        lease_id = acquire(batch)
        assert claim_isolated(batch, lease_id) == [poison]
        recording.requeue_crashed(lease_id=lease_id, batch_pk=batch.pk, requests=[poison], now=NOW)
        leases.release_lease(lease_id=lease_id, batch_pk=batch.pk)
        starts += 1

    assert starts == 3
    assert BatchResult.objects.get().error_code == "INFERENCE_FAILED"
    lease_id = acquire(batch)
    assert claim_isolated(batch, lease_id) == [innocent]
    record(batch, lease_id, innocent)
    assert counts(batch) == ("completed", 1, 1, 2)


def test_a_timed_out_request_is_attempted_three_times(make_batch: MakeBatch):
    batch = make_batch(1)
    lease_id = acquire(batch)
    for _ in range(3):
        (late,) = claim(batch, lease_id)
        outcome = RequestOutcome(request=late, error_code="TIMEOUT", error_message="Too late.")
        recording.retry_or_fail(lease_id=lease_id, batch_pk=batch.pk, outcome=outcome, now=NOW)

    assert counts(batch) == ("failed", 0, 1, 1)
    assert BatchResult.objects.get().error_code == "TIMEOUT"


def test_outcomes_are_recorded_and_requests_claimed_in_one_call(make_batch: MakeBatch):
    batch = make_batch(3)
    lease = acquire(batch)

    def record_and_claim(*done: int) -> list[int] | None:
        outcomes = [RequestOutcome(request=pk, answer="{}") for pk in done]
        more = recording.record_and_claim(lease_id=lease, batch_pk=batch.pk, outcomes=outcomes, limit=2, now=NOW)
        return None if more is None else [claimed.pk for claimed in more]

    first, second = record_and_claim() or []
    [third] = record_and_claim(first) or []
    assert counts(batch) == ("processing", 1, 0, 3)
    assert statuses(batch) == ["completed", "running", "running"]
    assert record_and_claim(second) == []
    assert record_and_claim(third) is None
    assert counts(batch) == ("completed", 3, 0, 3)


def test_a_worker_without_a_lease_neither_records_nor_claims(make_batch: MakeBatch):
    batch = make_batch(2)
    lease = acquire(batch)
    [first] = claim(batch, lease, limit=1)
    recording.reclaim_expired_leases(now=NOW + leases.LEASE_DURATION)

    outcomes = [RequestOutcome(request=first, answer="{}")]
    assert recording.record_and_claim(lease_id=lease, batch_pk=batch.pk, outcomes=outcomes, limit=2, now=NOW) is None

    assert statuses(batch) == ["pending", "pending"]
    assert not BatchResult.objects.exists()
