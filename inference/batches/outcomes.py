"""What came of requests: written once, counted with them, and the batch's end with the last."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import F

from inference.batches.leases import LASTS, Claimed, claim, lock_batch
from inference.batches.models import Batch, BatchRequest, BatchResult, Lease
from inference.config.celery import send
from inference.engine import Usage
from inference.protocol.batch import results_url
from inference.protocol.errors import Code
from inference.usage.services import record_usage
from inference.webhooks.services import BATCH_COMPLETE, announce
from shared.observability.metrics import Counter

RESULTS = Counter("stoa_batch_results_total", "Results of batches' requests that were written.", "outcome")
ENDED = Counter("stoa_batches_ended_total", "Batches that ended, by how they did.", "status")

MOST_ATTEMPTS = 3
FINISH = "inference.openai_batches.tasks.finish"
CRASHED = "The model's process or the worker ended while it worked on this, each time that it was tried."
EXPIRED = "The batch expired before this was done."


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a request: `answer` is JSON, or `error_code` says why there is none."""

    request: int
    answer: str = ""
    error_code: str = ""
    error_message: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    processing_time_ms: int = 0


@transaction.atomic
def store_and_claim(
    *, lease_id: uuid.UUID, batch_pk: int, outcomes: Sequence[Outcome], most: int, now: datetime
) -> list[Claimed] | None:
    """Both at once; None where the lease holds no more, or the batch does not go on."""
    if not store(lease_id=lease_id, batch_pk=batch_pk, outcomes=outcomes, now=now):
        return None
    return claim(lease_id=lease_id, batch_pk=batch_pk, most=most)


@transaction.atomic(savepoint=False)
def store(*, lease_id: uuid.UUID, batch_pk: int, outcomes: Sequence[Outcome], now: datetime) -> bool:
    """Write what came of requests under this lease, and renew it. What is no longer the lease's is dropped: somebody
    else does it, or nobody needs it. Answers whether the lease holds and the batch goes on."""
    batch = lock_batch(batch_pk)
    if (
        batch is None
        or batch.status != Batch.Status.PROCESSING
        or not Lease.objects.filter(pk=lease_id).update(until=now + LASTS)
    ):
        return False
    _write(batch, outcomes, lease_id, now)
    return batch.status == Batch.Status.PROCESSING


@transaction.atomic
def give_up(*, lease_id: uuid.UUID, batch_pk: int, requests: Sequence[int], now: datetime) -> None:
    """These were running when something crashed. They are run again, each alone; one that crashed alone, and not for
    the first time, has failed."""
    if batch := lock_batch(batch_pk):
        _crash(batch, lease_id, requests, now)


@transaction.atomic
def try_again(*, lease_id: uuid.UUID, batch_pk: int, outcome: Outcome, now: datetime) -> None:
    """This one's own failure may heal: it is done again, unless that was its last attempt."""
    batch = lock_batch(batch_pk)
    rows = BatchRequest.objects.filter(batch=batch_pk, lease=lease_id, pk=outcome.request)
    if batch and not rows.filter(attempts__lt=MOST_ATTEMPTS).update(status=BatchRequest.Status.PENDING, lease=None):
        _write(batch, [outcome], lease_id, now)


def reclaim(*, now: datetime) -> int:
    """Take back what workers held that are no more. Answers from how many."""
    dead = list(Lease.objects.filter(until__lte=now).values_list("pk", "batch_id"))
    return sum(_reclaim_one(lease_id, batch_pk, now) for lease_id, batch_pk in dead)


def rest(*, batch_pk: int, pause: timedelta, now: datetime) -> None:
    """Nobody is sent for the batch for a while: its model cannot be asked."""
    Batch.objects.filter(pk=batch_pk).update(resume_at=now + pause, setbacks=F("setbacks") + 1)


@transaction.atomic
def _reclaim_one(lease_id: uuid.UUID, batch_pk: int, now: datetime) -> bool:
    batch = lock_batch(batch_pk)
    lease = Lease.objects.select_for_update().filter(pk=lease_id, until__lte=now)
    if batch is None or not lease.exists():
        return False
    held = BatchRequest.objects.filter(batch=batch_pk, lease=lease_id)
    _crash(batch, lease_id, list(held.values_list("pk", flat=True)), now)
    lease.delete()
    return True


def _crash(batch: Batch, lease_id: uuid.UUID, requests: Sequence[int], now: datetime) -> None:
    """What is lonely had nothing running beside it: the crash is its own."""
    rows = BatchRequest.objects.filter(batch=batch, lease=lease_id, pk__in=requests)
    lost = rows.filter(is_lonely=True, attempts__gte=MOST_ATTEMPTS).values_list("pk", flat=True)
    failed = [Outcome(request=pk, error_code=Code.INFERENCE_FAILED, error_message=CRASHED) for pk in lost]
    _write(batch, failed, lease_id, now)
    rows.update(status=BatchRequest.Status.PENDING, lease=None, is_lonely=True)


def _write(batch: Batch, outcomes: Iterable[Outcome], lease_id: uuid.UUID, now: datetime) -> None:
    """The batch's row is the caller's. A second result of a request is refused by its primary key."""
    mine = BatchRequest.objects.filter(batch=batch, lease=lease_id)
    held = set(mine.values_list("pk", flat=True))
    written = [outcome for outcome in outcomes if outcome.request in held]
    if not written:
        return
    BatchResult.objects.bulk_create(_result(outcome, now) for outcome in written)
    answered = [outcome for outcome in written if not outcome.error_code]
    failed = [outcome for outcome in written if outcome.error_code]
    for status, ended in ((BatchRequest.Status.COMPLETED, answered), (BatchRequest.Status.FAILED, failed)):
        mine.filter(pk__in=[outcome.request for outcome in ended]).update(status=status, lease=None)
    batch.completed += len(answered)
    batch.failed += len(failed)
    batch.size += sum(len(outcome.answer.encode()) for outcome in answered)
    batch.setbacks = 0
    _count_tokens(batch, answered, now)
    for outcome, ended in (("completed", answered), ("failed", failed)):
        transaction.on_commit(partial(RESULTS.add, len(ended), outcome), robust=True)
    if batch.completed + batch.failed == batch.total:
        end(batch, Batch.Status.COMPLETED if batch.completed else Batch.Status.FAILED, now)
    batch.save(update_fields=[*COUNTED, "setbacks", *ENDING])


COUNTED = ["completed", "failed", "size", "prompt_tokens", "completion_tokens"]
ENDING = ["status", "ended_at"]


def end(batch: Batch, status: Batch.Status, now: datetime) -> None:
    """What happens when a batch ends, whatever ends it; in the caller's transaction, who saves `ENDING`."""
    batch.status, batch.ended_at = status, now
    transaction.on_commit(partial(ENDED.add, 1, str(status)), robust=True)
    if batch.kind != Batch.Kind.NATIVE:
        transaction.on_commit(partial(send, FINISH, batch_pk=batch.pk), robust=True)
    told = {
        "batch_id": batch.batch_id,
        "model": batch.model_id,
        "status": str(status),
        "total": batch.total,
        "completed": batch.completed,
        "failed": batch.failed,
        "tokens_generated": batch.completion_tokens,
        "duration_ms": round((now - batch.created_at).total_seconds() * 1000),
        "results_url": results_url(batch.batch_id),
    }
    announce(user=batch.user, url=batch.webhook_url or None, event=BATCH_COMPLETE, data=told, now=now)


def _count_tokens(batch: Batch, answered: Sequence[Outcome], now: datetime) -> None:
    """For the batch, and for the ledger of what its user used."""
    usage = Usage(
        sum(outcome.prompt_tokens for outcome in answered),
        sum(outcome.completion_tokens for outcome in answered),
        sum(outcome.cached_tokens for outcome in answered),
    )
    batch.prompt_tokens += usage.prompt_tokens
    batch.completion_tokens += usage.completion_tokens
    if answered:
        record_usage(
            user_id=batch.user_id,
            api_key_id=batch.api_key_id,
            model_id=batch.model_id,
            usage=usage,
            requests=len(answered),
            now=now,
        )


def _result(outcome: Outcome, now: datetime) -> BatchResult:
    """What other servers say may hold a NUL, which PostgreSQL takes in no text: all of the group would never end."""
    return BatchResult(
        request_id=outcome.request,
        answer=outcome.answer,
        error_code=outcome.error_code,
        error_message=outcome.error_message.replace("\x00", "\ufffd"),
        processing_time_ms=outcome.processing_time_ms,
        created_at=now,
    )
