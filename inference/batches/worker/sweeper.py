"""Sweeper: requeues what dead workers held, ends overdue batches, and dispatches batches without a worker.

One worker sweeps at a time, under the sweeper's lease. Batches past their retention are deleted by a periodic task.
"""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from inference.batches import dispatch
from inference.batches.models import Batch, BatchRequest, BatchResult, Sweeper
from inference.batches.services import (
    END_FIELDS,
    EXPIRED_MESSAGE,
    cancel_batch,
    delete_batch,
    end_batch,
    storage_exceeded_message,
    unfinished_requests,
)
from inference.batches.worker.recording import reclaim_expired_leases
from inference.protocol.errors import ErrorCode

SWEEPER_LEASE_DURATION = timedelta(seconds=10)
SWEEPER_NAME = "batches"
MAX_DELETED_PER_RUN = 20
RESULT_CHUNK_COUNT = 1000

logger = structlog.get_logger(__name__)
_process_id = uuid.uuid4()


def sweep(*, now: datetime, take: Callable[[int], bool], owner: uuid.UUID = _process_id) -> bool:
    """Sweep once. Return False if another worker is the sweeper.

    take: works on a batch in this process if its message was lost; see `dispatch.redispatch`.
    """
    if not _acquire_sweeper_lease(owner, now):
        return False
    counts = {
        "reclaimed": reclaim_expired_leases(now=now),
        "expired": expire_batches(now=now),
        "cancelled": cancel_batches_of_inactive_users(now=now),
        "overfull": fail_batches_over_storage(now=now),
        "sent": dispatch.redispatch(now=now, take=take),
    }
    if any(counts.values()):
        logger.info("batches_swept", **counts)
    return True


def expire_batches(*, now: datetime) -> int:
    """Expire the batches that are open after 24 hours; unfinished requests fail. Return the number of batches."""
    overdue = Batch.objects.filter(ended_at=None, expires_at__lte=now).values_list("pk", flat=True)
    return sum(
        _fail_unfinished(batch_pk, now, code=ErrorCode.TIMEOUT, message=EXPIRED_MESSAGE, status=Batch.Status.EXPIRED)
        for batch_pk in list(overdue)
    )


def cancel_batches_of_inactive_users(*, now: datetime) -> int:
    """Cancel the open batches of deactivated users. Return the number of batches."""
    batches = Batch.objects.filter(ended_at=None, user__is_active=False).values_list("pk", flat=True)
    return len([cancel_batch(batch_pk=batch_pk, now=now) for batch_pk in list(batches)])


def fail_batches_over_storage(*, now: datetime) -> int:
    """Fail the unfinished requests of users whose results exceed their storage. Return the number of batches.

    The limit is checked once per sweep only, so results may exceed it a little.
    """
    active_users = Batch.objects.filter(ended_at=None).values("user")
    used = Batch.objects.filter(user__in=active_users).order_by().values("user").annotate(used=Sum("size"))
    users = used.filter(used__gt=settings.MAX_BATCH_BYTES_PER_USER).values_list("user", flat=True)
    batches = Batch.objects.filter(ended_at=None, user__in=list(users)).values_list("pk", flat=True)
    message = storage_exceeded_message()
    return sum(_fail_unfinished(pk, now, code=ErrorCode.INVALID_REQUEST, message=message) for pk in list(batches))


def delete_old_batches(*, now: datetime) -> int:
    """Delete up to MAX_DELETED_PER_RUN batches whose retention is over. Return their number."""
    old = Batch.objects.filter(ended_at__lte=now - settings.BATCH_RETENTION).order_by("ended_at")
    batches = list(old.values_list("pk", flat=True)[:MAX_DELETED_PER_RUN])
    for batch_pk in batches:
        delete_batch(batch_pk=batch_pk)
    return len(batches)


@transaction.atomic
def _fail_unfinished(
    batch_pk: int, now: datetime, *, code: ErrorCode, message: str, status: Batch.Status | None = None
) -> bool:
    """Fail the unfinished requests and end the batch. status: None derives it from the results."""
    batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_pk)
    if batch.status != Batch.Status.PROCESSING:
        return False
    unfinished = unfinished_requests(batch)
    keys = unfinished.order_by("index").values_list("index", "pk")
    after = -1
    while page := list(keys.filter(index__gt=after)[:RESULT_CHUNK_COUNT]):
        BatchResult.objects.bulk_create(
            BatchResult(request_id=pk, error_code=code, error_message=message, processing_time_ms=0, created_at=now)
            for _, pk in page
        )
        after = page[-1][0]
    batch.failed += unfinished.update(status=BatchRequest.Status.FAILED, lease=None)
    end_batch(batch, status or (Batch.Status.COMPLETED if batch.completed else Batch.Status.FAILED), now)
    batch.save(update_fields=["failed", *END_FIELDS])
    return True


def _acquire_sweeper_lease(owner: uuid.UUID, now: datetime) -> bool:
    """Return whether the lease is the owner's: renewed, or taken over after it expired."""
    expires_at = now + SWEEPER_LEASE_DURATION
    defaults = {"owner": owner, "expires_at": expires_at}
    sweeper, created = Sweeper.objects.get_or_create(name=SWEEPER_NAME, defaults=defaults)
    if created:
        return True
    unchanged = Sweeper.objects.filter(name=SWEEPER_NAME, owner=sweeper.owner, expires_at=sweeper.expires_at)
    is_free = sweeper.owner == owner or sweeper.expires_at <= now
    return is_free and unchanged.update(owner=owner, expires_at=expires_at) == 1
