"""Who works on what: requests are claimed under a lease, and come back when it ends, whoever let it end.

Whoever writes takes the batch's row first, so that no two wait for each other.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from inference.batches.models import Batch, BatchRequest, Lease

LASTS = timedelta(seconds=30)


@dataclass(frozen=True)
class Claimed:
    """A request to be done now. attempts: this one included. is_lonely: nothing else may run meanwhile."""

    pk: int
    body: str
    attempts: int
    is_lonely: bool


def lock_batch(batch_pk: int) -> Batch | None:
    """Nobody else changes it until the transaction's end. None: it was erased, with its user."""
    return Batch.objects.select_for_update(no_key=True).filter(pk=batch_pk).first()


def open_lease(*, batch_pk: int, worker: str, now: datetime) -> uuid.UUID | None:
    """A right to claim requests; None where the batch has ended or rests, or this worker works on it already."""
    with transaction.atomic():
        batch = lock_batch(batch_pk)
        if batch is None or batch.status != Batch.Status.PROCESSING or batch.resume_at > now:
            return None
        if Lease.objects.filter(batch=batch, worker=worker, until__gt=now).exists():
            return None
        return Lease.objects.create(batch=batch, worker=worker, until=now + LASTS).pk


def renew(*, lease_id: uuid.UUID, now: datetime, closes: bool = False) -> bool:
    """Whether the lease still holds and its batch goes on. closes: its worker claims no more with it."""
    changes = {"until": now + LASTS} | ({"worker": ""} if closes else {})
    lease = Lease.objects.filter(pk=lease_id, batch__status=Batch.Status.PROCESSING)
    return Lease.objects.filter(pk__in=lease.values("pk")).update(**changes) == 1


@transaction.atomic(savepoint=False)
def claim(*, lease_id: uuid.UUID, batch_pk: int, most: int) -> list[Claimed]:
    """The next requests in order, at most so many. Those that were running in a crash are left for `claim_lonely`."""
    rows = BatchRequest.objects.filter(batch=batch_pk, status=BatchRequest.Status.PENDING, is_lonely=False)
    return _claim(rows, lease_id, batch_pk, most)


def claim_lonely(*, lease_id: uuid.UUID, batch_pk: int, model_id: str) -> list[Claimed]:
    """One that was running in a crash; none where there is none, or somebody else runs such a one of this model. Only
    for who has nothing running."""
    rows = BatchRequest.objects.filter(batch=batch_pk, status=BatchRequest.Status.PENDING, is_lonely=True)
    try:
        with transaction.atomic():
            Lease.objects.filter(pk=lease_id).update(lonely_model=model_id)
            return _claim(rows, lease_id, batch_pk, 1)
    except IntegrityError:
        return []


def has_pending(*, batch_pk: int) -> bool:
    """Whether something of a batch that goes on is left to be claimed."""
    pending = BatchRequest.objects.filter(batch=batch_pk, status=BatchRequest.Status.PENDING)
    return any(pending.filter(is_lonely=lonely).exists() for lonely in (False, True))


@transaction.atomic
def hand_back(*, lease_id: uuid.UUID, batch_pk: int, requests: Sequence[int]) -> None:
    """These were not done, through no fault of theirs: whoever is next begins them anew."""
    lock_batch(batch_pk)
    mine = BatchRequest.objects.filter(batch=batch_pk, lease=lease_id, pk__in=requests)
    mine.update(status=BatchRequest.Status.PENDING, lease=None, attempts=F("attempts") - 1)


@transaction.atomic
def close_lease(*, lease_id: uuid.UUID, batch_pk: int) -> None:
    """The end of a lease whose worker lives: what it still has is handed back."""
    lock_batch(batch_pk)
    mine = BatchRequest.objects.filter(batch=batch_pk, lease=lease_id)
    mine.update(status=BatchRequest.Status.PENDING, lease=None, attempts=F("attempts") - 1)
    Lease.objects.filter(pk=lease_id).delete()


def _claim(rows: "QuerySet[BatchRequest]", lease_id: uuid.UUID, batch_pk: int, most: int) -> list[Claimed]:
    """Rows that somebody else is claiming are passed over. The lease cannot be swept meanwhile."""
    lease = Lease.objects.filter(pk=lease_id, batch__status=Batch.Status.PROCESSING)
    if lease.select_for_update(no_key=True, of=("self",)).first() is None:  # exists() would lock the batch as well
        return []
    found = list(rows.select_for_update(skip_locked=True, no_key=True).order_by("index")[:most])
    BatchRequest.objects.filter(pk__in=[row.pk for row in found]).update(
        status=BatchRequest.Status.RUNNING, lease=lease_id, attempts=F("attempts") + 1
    )
    return [Claimed(row.pk, row.body, row.attempts + 1, row.is_lonely) for row in found]
