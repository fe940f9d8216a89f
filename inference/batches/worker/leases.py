"""Leases: which worker works on which requests. An expired lease gives its requests back to the queue.

Every writer locks the batch's row first, so that no two transactions deadlock.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from inference.batches.models import Batch, BatchRequest, Lease

LEASE_DURATION = timedelta(seconds=30)


def lock_batch(batch_pk: int) -> Batch | None:
    """Lock the batch's row until the end of the transaction. Return None if the batch was deleted with its user."""
    return Batch.objects.select_for_update(no_key=True).filter(pk=batch_pk).first()


def acquire_lease(*, batch_pk: int, worker: str, now: datetime) -> uuid.UUID | None:
    """Return a new lease, or None if the batch has ended or is backing off, or the worker has a lease on it."""
    with transaction.atomic():
        batch = lock_batch(batch_pk)
        if batch is None or batch.status != Batch.Status.PROCESSING or batch.resume_at > now:
            return None
        if Lease.objects.filter(batch=batch, worker=worker, expires_at__gt=now).exists():
            return None
        return Lease.objects.create(batch=batch, worker=worker, expires_at=now + LEASE_DURATION).pk


def renew_lease(*, lease_id: uuid.UUID, now: datetime, stop_claiming: bool = False) -> bool:
    """Renew the lease, and return whether it is still valid and its batch still open.

    stop_claiming: the worker claims no more requests with this lease, so it may acquire another one.
    """
    changes = {"expires_at": now + LEASE_DURATION} | ({"worker": ""} if stop_claiming else {})
    return Lease.objects.filter(pk=lease_id, batch__status=Batch.Status.PROCESSING).update(**changes) == 1


@transaction.atomic(savepoint=False)
def claim_requests(*, lease_id: uuid.UUID, batch_pk: int, limit: int) -> list[BatchRequest]:
    """Claim up to `limit` pending requests in order, without the isolated ones."""
    rows = BatchRequest.objects.filter(batch=batch_pk, status=BatchRequest.Status.PENDING, is_isolated=False)
    return _claim(rows, lease_id, batch_pk, limit)


def claim_isolated_request(*, lease_id: uuid.UUID, batch_pk: int, model_id: str) -> list[BatchRequest]:
    """Claim one isolated request, unless another worker runs an isolated request of the same model.

    Call it only while nothing else runs under the lease.
    """
    rows = BatchRequest.objects.filter(batch=batch_pk, status=BatchRequest.Status.PENDING, is_isolated=True)
    try:
        with transaction.atomic():
            Lease.objects.filter(pk=lease_id).update(isolated_model=model_id)
            return _claim(rows, lease_id, batch_pk, 1)
    except IntegrityError:
        return []


def has_pending(*, batch_pk: int) -> bool:
    """Return whether the batch has pending requests."""
    pending = BatchRequest.objects.filter(batch=batch_pk, status=BatchRequest.Status.PENDING)
    return any(pending.filter(is_isolated=is_isolated).exists() for is_isolated in (False, True))


@transaction.atomic
def requeue_requests(*, lease_id: uuid.UUID, batch_pk: int, requests: Sequence[int]) -> None:
    """Make these requests pending again without counting the attempt: it failed through no fault of theirs."""
    lock_batch(batch_pk)
    leased = BatchRequest.objects.filter(batch=batch_pk, lease=lease_id, pk__in=requests)
    leased.update(status=BatchRequest.Status.PENDING, lease=None, attempts=F("attempts") - 1)


@transaction.atomic
def release_lease(*, lease_id: uuid.UUID, batch_pk: int) -> None:
    """Delete the lease of a live worker, and make its remaining requests pending again."""
    lock_batch(batch_pk)
    leased = BatchRequest.objects.filter(batch=batch_pk, lease=lease_id)
    leased.update(status=BatchRequest.Status.PENDING, lease=None, attempts=F("attempts") - 1)
    Lease.objects.filter(pk=lease_id).delete()


def _claim(rows: "QuerySet[BatchRequest]", lease_id: uuid.UUID, batch_pk: int, limit: int) -> list[BatchRequest]:
    """Claim rows, skipping those that another worker is claiming. The lock keeps the sweeper from the lease."""
    lease = Lease.objects.filter(pk=lease_id, batch__status=Batch.Status.PROCESSING)
    if lease.select_for_update(no_key=True, of=("self",)).first() is None:  # exists() would lock the batch too
        return []
    claimed = list(rows.select_for_update(skip_locked=True, no_key=True).order_by("index")[:limit])
    BatchRequest.objects.filter(pk__in=[row.pk for row in claimed]).update(
        status=BatchRequest.Status.RUNNING, lease=lease_id, attempts=F("attempts") + 1
    )
    return claimed
