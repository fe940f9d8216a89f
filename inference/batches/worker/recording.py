"""Recording of results: each request's result is written once, and counted in the same transaction.

The last result ends the batch. Crashed requests run again in isolation, until their attempts are used up.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import F

from inference.batches.models import Batch, BatchRequest, BatchResult, Lease
from inference.batches.services import END_FIELDS, end_batch
from inference.batches.worker.leases import LEASE_DURATION, claim_requests, lock_batch
from inference.engine import Usage
from inference.protocol.errors import ErrorCode
from inference.usage.services import record_usage
from shared.observability.metrics import Counter

RESULTS = Counter("stoa_batch_results_total", "Results of batches' requests that were written.", "outcome")

MAX_ATTEMPTS = 3
CRASHED_MESSAGE = "The model's process or the worker crashed each time that it ran this request."
COUNTER_FIELDS = ("completed", "failed", "size", "prompt_tokens", "completion_tokens", "backoff_count")


@dataclass(frozen=True, kw_only=True)
class RequestOutcome:
    """The final outcome of a request: JSON in `answer`, or an `error_code`."""

    request: int
    answer: str = ""
    error_code: str = ""
    error_message: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    processing_time_ms: int = 0


@transaction.atomic
def record_and_claim(
    *, lease_id: uuid.UUID, batch_pk: int, outcomes: Sequence[RequestOutcome], limit: int, now: datetime
) -> list[BatchRequest] | None:
    """Record outcomes and claim further requests in one transaction. Return None if the lease is invalid."""
    if not record_outcomes(lease_id=lease_id, batch_pk=batch_pk, outcomes=outcomes, now=now):
        return None
    return claim_requests(lease_id=lease_id, batch_pk=batch_pk, limit=limit)


@transaction.atomic(savepoint=False)
def record_outcomes(*, lease_id: uuid.UUID, batch_pk: int, outcomes: Sequence[RequestOutcome], now: datetime) -> bool:
    """Record the outcomes of requests under this lease and renew it. Return whether lease and batch go on.

    Outcomes of requests that are no longer under the lease are dropped: another worker has them, or they are cancelled.
    """
    batch = lock_batch(batch_pk)
    if (
        batch is None
        or batch.status != Batch.Status.PROCESSING
        or not Lease.objects.filter(pk=lease_id).update(expires_at=now + LEASE_DURATION)
    ):
        return False
    _write_results(batch, outcomes, lease_id, now)
    return batch.status == Batch.Status.PROCESSING


@transaction.atomic
def requeue_crashed(*, lease_id: uuid.UUID, batch_pk: int, requests: Sequence[int], now: datetime) -> None:
    """Make requests that ran during a crash pending again, each in isolation.

    A request that crashed in isolation, and whose attempts are used up, has failed.
    """
    if batch := lock_batch(batch_pk):
        _isolate_or_fail(batch, lease_id, requests, now)


@transaction.atomic
def retry_or_fail(*, lease_id: uuid.UUID, batch_pk: int, outcome: RequestOutcome, now: datetime) -> None:
    """Make a request that failed for a temporary reason pending again, or record its failure at the last attempt."""
    batch = lock_batch(batch_pk)
    rows = BatchRequest.objects.filter(batch=batch_pk, lease=lease_id, pk=outcome.request)
    if batch and not rows.filter(attempts__lt=MAX_ATTEMPTS).update(status=BatchRequest.Status.PENDING, lease=None):
        _write_results(batch, [outcome], lease_id, now)


@transaction.atomic
def record_elsewhere(*, batch_pk: int, outcomes: Mapping[int, RequestOutcome], now: datetime) -> int | None:
    """Record the outcomes that another server has, by the index of their requests. Return how many were new.

    Return None if the batch has ended. Only pending requests get one, so none is recorded twice.
    """
    batch = lock_batch(batch_pk)
    if batch is None or batch.status != Batch.Status.PROCESSING:
        return None
    pending = BatchRequest.objects.filter(batch=batch, index__in=list(outcomes), status=BatchRequest.Status.PENDING)
    keys = dict(pending.values_list("index", "pk"))
    if keys:
        lease = Lease.objects.create(batch=batch, expires_at=now + LEASE_DURATION)
        pending.update(status=BatchRequest.Status.RUNNING, lease=lease, attempts=F("attempts") + 1)
        found = [replace(outcomes[index], request=request) for index, request in keys.items()]
        _write_results(batch, found, lease.pk, now)
        lease.delete()
    return len(keys) if batch.status == Batch.Status.PROCESSING else None


def reclaim_expired_leases(*, now: datetime) -> int:
    """Requeue the requests of workers whose lease has expired. Return the number of leases."""
    expired = list(Lease.objects.filter(expires_at__lte=now).values_list("pk", "batch_id"))
    return sum(_reclaim_lease(lease_id, batch_pk, now) for lease_id, batch_pk in expired)


def back_off(*, batch_pk: int, delay: timedelta, now: datetime) -> None:
    """Dispatch the batch only after the delay: its model is unavailable."""
    Batch.objects.filter(pk=batch_pk).update(resume_at=now + delay, backoff_count=F("backoff_count") + 1)


@transaction.atomic
def _reclaim_lease(lease_id: uuid.UUID, batch_pk: int, now: datetime) -> bool:
    batch = lock_batch(batch_pk)
    lease = Lease.objects.select_for_update().filter(pk=lease_id, expires_at__lte=now)
    if batch is None or not lease.exists():
        return False
    requests = BatchRequest.objects.filter(batch=batch_pk, lease=lease_id)
    _isolate_or_fail(batch, lease_id, list(requests.values_list("pk", flat=True)), now)
    lease.delete()
    return True


def _isolate_or_fail(batch: Batch, lease_id: uuid.UUID, requests: Sequence[int], now: datetime) -> None:
    """Isolate crashed requests; fail those that crashed in isolation at their last attempt."""
    rows = BatchRequest.objects.filter(batch=batch, lease=lease_id, pk__in=requests)
    used_up = rows.filter(is_isolated=True, attempts__gte=MAX_ATTEMPTS).values_list("pk", flat=True)
    failed = [
        RequestOutcome(request=pk, error_code=ErrorCode.INFERENCE_FAILED, error_message=CRASHED_MESSAGE)
        for pk in used_up
    ]
    _write_results(batch, failed, lease_id, now)
    rows.update(status=BatchRequest.Status.PENDING, lease=None, is_isolated=True)


def _write_results(batch: Batch, outcomes: Iterable[RequestOutcome], lease_id: uuid.UUID, now: datetime) -> None:
    """Write results and counts. The caller holds the batch's lock. The primary key refuses a second result."""
    leased = BatchRequest.objects.filter(batch=batch, lease=lease_id)
    leased_keys = set(leased.values_list("pk", flat=True))
    written = [outcome for outcome in outcomes if outcome.request in leased_keys]
    if not written:
        return
    BatchResult.objects.bulk_create(_result_row(outcome, now) for outcome in written)
    completed = [outcome for outcome in written if not outcome.error_code]
    failed = [outcome for outcome in written if outcome.error_code]
    for status, group in ((BatchRequest.Status.COMPLETED, completed), (BatchRequest.Status.FAILED, failed)):
        leased.filter(pk__in=[outcome.request for outcome in group]).update(status=status, lease=None)
        transaction.on_commit(partial(RESULTS.add, len(group), str(status)), robust=True)
    batch.completed += len(completed)
    batch.failed += len(failed)
    batch.size += sum(len(outcome.answer.encode()) for outcome in completed)
    batch.backoff_count = 0
    _add_usage(batch, completed, now)
    if batch.completed + batch.failed == batch.total:
        end_batch(batch, Batch.Status.COMPLETED if batch.completed else Batch.Status.FAILED, now)
    batch.save(update_fields=[*COUNTER_FIELDS, *END_FIELDS])


def _add_usage(batch: Batch, completed: Sequence[RequestOutcome], now: datetime) -> None:
    """Add the token usage to the batch and to its user's usage ledger."""
    usage = Usage(
        sum(outcome.prompt_tokens for outcome in completed),
        sum(outcome.completion_tokens for outcome in completed),
        sum(outcome.cached_tokens for outcome in completed),
    )
    batch.prompt_tokens += usage.prompt_tokens
    batch.completion_tokens += usage.completion_tokens
    if completed:
        record_usage(
            user_id=batch.user_id,
            api_key_id=batch.api_key_id,
            model_id=batch.model_id,
            usage=usage,
            requests=len(completed),
            now=now,
        )


def _result_row(outcome: RequestOutcome, now: datetime) -> BatchResult:
    return BatchResult(
        request_id=outcome.request,
        answer=outcome.answer,
        error_code=outcome.error_code,
        # Another server's message may contain NUL, which PostgreSQL refuses; the whole group would never be written.
        error_message=outcome.error_message.replace("\x00", "\ufffd"),
        processing_time_ms=outcome.processing_time_ms,
        created_at=now,
    )
