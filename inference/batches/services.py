"""Accepting batches, ending them early, and forgetting them.

    create_batch(user=..., kind=Batch.Kind.CHAT, model_id="m", requests=[NewRequest("a", '{"messages": ...}')], now=now)

A request's `body` is JSON text. Native: {"id", "prompt", parameters}, over the batch's `parameters`. The other kinds:
the body of the route in OpenAI's form, `model` included. It is validated by who creates the batch; what cannot be read
when its turn comes fails with INVALID_REQUEST. Requests may be any iterable: it is read once, in the transaction that
makes the batch, and what it raises undoes that.

A batch has ended when `ended_at` is set. `results` reads what came of it; `outcomes.end` is where every end passes.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet, Sum

from inference.batches import dispatch, outcomes
from inference.batches.models import Batch, BatchRequest, BatchResult, Lease
from inference.protocol.errors import Code
from inference.usage.quotas import NOT_AGAIN, require_left
from shared.accounts.models import ApiKey, User
from shared.accounts.services import lock_active
from shared.api.errors import ApiError

ACCEPTED_FOR = timedelta(hours=24)
WRITTEN_AT_ONCE = 1000
LARGEST_PIECE = 4 * 1024 * 1024  # characters of requests
ROW_BYTES = 512  # what a request takes beside its body: its row, the entries of its indexes, the row of its result
FORGOTTEN_AT_ONCE = 20
QUEUE_MAY_MOVE_S = 60  # when to ask again after a full queue


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request of a batch that is made."""

    custom_id: str
    body: str


@transaction.atomic
def create_batch(
    *,
    user: User,
    kind: Batch.Kind,
    model_id: str,
    requests: Iterable[NewRequest],
    now: datetime,
    api_key: ApiKey | None = None,
    tokens: int = 0,
    parameters: Mapping[str, Any] | None = None,
    webhook_url: str = "",
) -> Batch:
    """Accepts the batch with all its requests, or nothing. ApiError 400: no requests, too many, or an id twice; 413:
    the user's batches have no room for it, or it is too much for their queue; 429: their queue is full, or their tokens
    of this month, or those of the key, are used up; 401: the user was deactivated or erased meanwhile.

    tokens: what the requests may take together, about. webhook_url: one that `webhooks.services.check_one_off` has
    checked."""
    require_left(user=user, api_key=api_key, now=now)
    _require_queue(user, tokens)
    _require_room(user, 1)  # else who has none could have much written all the same
    batch = Batch.objects.create(
        user=user,
        api_key=api_key,
        kind=kind,
        model_id=model_id,
        parameters=dict(parameters or {}),
        webhook_url=webhook_url,
        created_at=now,
        expires_at=now + ACCEPTED_FOR,
        resume_at=now,
    )
    try:
        batch.total, batch.size = _write_requests(batch, requests)
    except IntegrityError as error:
        raise ApiError(400, "Two requests of the batch have the same id: give each an id of its own.") from error
    if not 0 < batch.total <= settings.BATCH_MOST_REQUESTS:
        raise ApiError(400, f"A batch has 1 to {settings.BATCH_MOST_REQUESTS} requests.")
    lock_active(user)  # so that their batches are counted one after the other
    _require_queue(user, tokens)
    _require_room(user, batch.size)
    batch.reserved_tokens = tokens
    batch.save(update_fields=["total", "size", "reserved_tokens"])
    transaction.on_commit(partial(dispatch.wake, batch_pk=batch.pk, now=now), robust=True)
    return batch


@transaction.atomic
def cancel_batch(*, batch_pk: int, now: datetime) -> Batch:
    """Ends the batch with what it has so far; what is running is dropped. One that has ended stays as it is."""
    batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_pk)
    if batch.status == Batch.Status.PROCESSING:
        _unfinished(batch).update(status=BatchRequest.Status.CANCELLED, lease=None)
        outcomes.end(batch, Batch.Status.CANCELLED, now)
        batch.save(update_fields=outcomes.ENDING)
    return batch


@transaction.atomic
def retry_failed(*, batch_pk: int, now: datetime) -> Batch:
    """A new batch of the requests that failed in this one, which stays as it is. ApiError 400: none did."""
    batch = Batch.objects.get(pk=batch_pk)
    failed = BatchRequest.objects.filter(batch=batch, status=BatchRequest.Status.FAILED).order_by("index")
    return create_batch(
        user=batch.user,
        api_key=batch.api_key,
        kind=Batch.Kind(batch.kind),
        model_id=batch.model_id,
        parameters=batch.parameters,
        requests=(NewRequest(row.custom_id, row.body) for row in failed.iterator()),
        tokens=batch.reserved_tokens * batch.failed // max(1, batch.total),
        now=now,
    )


def expire_batches(*, now: datetime) -> int:
    """Ends the batches whose time is over: what they have not done has failed. Answers how many."""
    late = Batch.objects.filter(ended_at=None, expires_at__lte=now).values_list("pk", flat=True)
    return sum(
        _give_up(batch_pk, now, code=Code.TIMEOUT, message=outcomes.EXPIRED, status=Batch.Status.EXPIRED)
        for batch_pk in list(late)
    )


def cancel_batches_of_the_inactive(*, now: datetime) -> int:
    """Ends the batches of users that were deactivated meanwhile. Answers how many."""
    theirs = Batch.objects.filter(ended_at=None, user__is_active=False).values_list("pk", flat=True)
    return len([cancel_batch(batch_pk=batch_pk, now=now) for batch_pk in list(theirs)])


def end_overfull_batches(*, now: datetime) -> int:
    """Ends the batches of users whose results have outgrown their room: what is not done has failed. Answers how many.
    It is looked after now and then, so that they may take a little more."""
    working = Batch.objects.filter(ended_at=None).values("user")
    kept = Batch.objects.filter(user__in=working).order_by().values("user").annotate(kept=Sum("size"))
    full = kept.filter(kept__gt=settings.BATCHES_BYTES_PER_USER).values_list("user", flat=True)
    open_ones = Batch.objects.filter(ended_at=None, user__in=list(full)).values_list("pk", flat=True)
    return sum(_give_up(batch_pk, now, code=Code.INVALID_REQUEST, message=_no_room()) for batch_pk in list(open_ones))


def forget_batches(*, now: datetime) -> int:
    """Deletes some of the batches that ended long ago, with all that belongs to them. Answers how many."""
    old = Batch.objects.filter(ended_at__lte=now - settings.BATCH_KEPT_FOR).order_by("ended_at")
    batches = list(old.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    for batch_pk in batches:
        forget_batch(batch_pk=batch_pk)
    return len(batches)


@transaction.atomic
def _give_up(batch_pk: int, now: datetime, *, code: Code, message: str, status: Batch.Status | None = None) -> bool:
    """What is not done has failed so. status: None is what the results make of it."""
    batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_pk)
    if batch.status != Batch.Status.PROCESSING:
        return False
    late = _unfinished(batch)
    BatchResult.objects.bulk_create(
        (
            BatchResult(
                request_id=pk,
                error_code=code,
                error_message=message,
                processing_time_ms=0,
                created_at=now,
            )
            for pk in late.values_list("pk", flat=True)
        ),
        batch_size=WRITTEN_AT_ONCE,
    )
    batch.failed += late.update(status=BatchRequest.Status.FAILED, lease=None)
    outcomes.end(batch, status or (Batch.Status.COMPLETED if batch.completed else Batch.Status.FAILED), now)
    batch.save(update_fields=["failed", *outcomes.ENDING])
    return True


@transaction.atomic
def forget_batch(*, batch_pk: int) -> None:
    """Deletes a batch with all that belongs to it. From the leaves to the root: what points at what is deleted, is
    deleted before it."""
    rows = BatchRequest.objects.filter(batch=batch_pk)
    BatchResult.objects.filter(request__in=rows).delete()
    rows.delete()
    Lease.objects.filter(batch=batch_pk).delete()
    Batch.objects.filter(pk=batch_pk).delete()


def _unfinished(batch: Batch) -> "QuerySet[BatchRequest]":
    return BatchRequest.objects.filter(
        batch=batch, status__in=[BatchRequest.Status.PENDING, BatchRequest.Status.RUNNING]
    )


def _require_room(user: User, size: int) -> None:
    """Requests are kept for as long as their batches are: they are not to fill the disk."""
    kept = Batch.objects.filter(user=user).aggregate(size=Sum("size"))["size"] or 0
    if kept + size > settings.BATCHES_BYTES_PER_USER:
        raise ApiError(413, _no_room())


def _require_queue(user: User, tokens: int) -> None:
    """What one user may have waiting, so that others' batches have their turn on the same day."""
    most = settings.BATCH_QUEUED_TOKENS_PER_USER
    if tokens > most:
        raise ApiError(413, f"The batch may take {tokens} tokens, and {most} of one user may be queued: split it.")
    queued = Batch.objects.filter(user=user, ended_at=None).aggregate(tokens=Sum("reserved_tokens"))["tokens"] or 0
    if queued + tokens > most:
        raise ApiError(
            429,
            f"{queued} tokens of your batches are queued, {most} may be, and this one may take {tokens}: wait until "
            "one ends, or cancel one.",
            headers={"Retry-After": str(QUEUE_MAY_MOVE_S)} | NOT_AGAIN,
        )


def _no_room() -> str:
    most, days = settings.BATCHES_BYTES_PER_USER, settings.BATCH_KEPT_FOR.total_seconds() / 86400
    return (
        f"Your batches may take {most} bytes together, with their results: wait until others go, {days:g} days after "
        "their end."
    )


def _write_requests(batch: Batch, requests: Iterable[NewRequest]) -> tuple[int, int]:
    """Answers how many there were and what they take; one more than there may be is enough to know."""
    rows = _rows(batch, itertools.islice(requests, settings.BATCH_MOST_REQUESTS + 1))
    written, size = 0, 0
    for some in _pieces(rows):
        BatchRequest.objects.bulk_create(some)
        written += len(some)
        size += sum(ROW_BYTES + len(row.body.encode()) for row in some)
    return written, size


def _pieces(rows: Iterable[BatchRequest]) -> Iterator[list[BatchRequest]]:
    """What is written with one statement: so many rows, or fewer large ones."""
    some: list[BatchRequest] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row.body)
        if len(some) == WRITTEN_AT_ONCE or size >= LARGEST_PIECE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _rows(batch: Batch, requests: Iterable[NewRequest]) -> Iterator[BatchRequest]:
    for index, request in enumerate(requests):
        yield BatchRequest(batch=batch, index=index, custom_id=request.custom_id, body=request.body)
