"""Services of batches: create, cancel, retry, end and delete.

    create_batch(user=..., kind=Batch.Kind.CHAT, model_id="m", requests=[NewRequest("a", '{"messages": ...}')], now=now)

A request's `body` is JSON text. Native: {"id", "prompt", parameters}, which override the batch's `parameters`. Other
kinds: the body of the OpenAI route, `model` included. The caller validates it; a body that is invalid at execution
fails with INVALID_REQUEST. `requests` is read once; an exception from it leaves nothing.

A batch has ended when `ended_at` is set. Every end passes through `end_batch`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import QuerySet, Sum

from inference.batches.dispatch import WRITE_FILES_TASK, dispatch_batch
from inference.batches.insertion import delete_in_steps, insert_requests
from inference.batches.models import Batch, BatchRequest, BatchResult, Lease
from inference.config.celery import send
from inference.protocol.native.batches import results_url
from inference.usage.quotas import NO_RETRY_HEADERS, check_quotas
from inference.webhooks.events import BATCH_COMPLETE
from shared.accounts.models import ApiKey, User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError
from shared.observability.metrics import Counter
from shared.webhooks.services import announce

ENDED = Counter("stoa_batches_ended_total", "Batches that ended, by how they did.", "status")

BATCH_LIFETIME = timedelta(hours=24)
PAGE_COUNT = 1000  # rows that a retry reads at once
END_FIELDS = ("status", "ended_at")
MAX_BATCHES_PER_USER = 10_000
QUEUE_FULL_RETRY_SECONDS = 60
EXPIRED_MESSAGE = "The batch expired before this was done."  # stored: output files are written by it


class NewRequest(NamedTuple):
    """A request of a batch that is being created."""

    custom_id: str
    body: str


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
    on_created: Callable[[Batch], None] | None = None,
) -> Batch:
    """Create the batch with all its requests, or nothing, and dispatch it on commit.

    The requests are written in short transactions, so that other writers need not wait. The batch is visible from the
    last one on. Call it outside of a transaction.

    tokens: estimate for all requests together. webhook_url: checked by `webhooks.services.check_webhook_url`.
    on_created: called in the last transaction.

    Raises ApiError 400: no requests, too many, or a duplicate id; 413: the user's storage is full, or the batch exceeds
    the user's whole queue; 429: the queue is full or a monthly quota is used up; 401: the user is no longer active;
    503: writing the requests took too long.
    """
    check_quotas(user=user, api_key=api_key, now=now)
    _require_queue_capacity(user, tokens)
    _require_storage(Batch.all_objects.filter(user=user), 1)  # a user without storage must not cause large writes
    batch = Batch(
        user=user,
        api_key=api_key,
        kind=kind,
        model_id=model_id,
        parameters=dict(parameters or {}),
        reserved_tokens=tokens,
        webhook_url=webhook_url,
        created_at=now,
        expires_at=now + BATCH_LIFETIME,
        resume_at=now + BATCH_LIFETIME,  # no worker takes it before it is accepted, one of the previous version either
    )

    def accept() -> None:
        lock_active_user(user)  # concurrent batches of one user are counted one after the other
        _require_queue_capacity(user, tokens)
        _require_storage(Batch.objects.filter(user=user), batch.size)
        _require_fewer_batches(user)
        batch.accept_before, batch.resume_at = None, now
        batch.save(update_fields=["accept_before", "resume_at"])
        if on_created:
            on_created(batch)
        transaction.on_commit(partial(dispatch_batch, batch_pk=batch.pk, now=now), robust=True)

    try:
        insert_requests(batch, requests, on_last=accept)
    except BaseException:
        if batch.pk:
            with suppress(DatabaseError):  # `delete_abandoned_batches` deletes it later
                delete_in_steps(batch_pk=batch.pk)
        raise
    return batch


@transaction.atomic
def cancel_batch(*, batch_pk: int, now: datetime) -> Batch:
    """End the batch with the results it has, and drop running requests. Leave a batch that has ended as it is."""
    batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_pk)
    if batch.status == Batch.Status.PROCESSING:
        unfinished_requests(batch).update(status=BatchRequest.Status.CANCELLED, lease=None)
        end_batch(batch, Batch.Status.CANCELLED, now)
        batch.save(update_fields=END_FIELDS)
    return batch


def retry_failed(*, batch_pk: int, now: datetime) -> Batch:
    """Create a new batch of this batch's failed requests. Raises ApiError 400 if none failed."""
    batch = Batch.objects.get(pk=batch_pk)
    failed = BatchRequest.objects.filter(batch=batch, status=BatchRequest.Status.FAILED).order_by("index")
    return create_batch(
        user=batch.user,
        api_key=batch.api_key,
        kind=Batch.Kind(batch.kind),
        model_id=batch.model_id,
        parameters=batch.parameters,
        requests=(NewRequest(row.custom_id, row.body) for row in _in_pages(failed)),
        tokens=batch.reserved_tokens * batch.failed // max(1, batch.total),
        now=now,
    )


def _in_pages(rows: QuerySet[BatchRequest]) -> Iterator[BatchRequest]:
    """Yield rows by their index. No statement is open between two pages: on SQLite it would refuse the writes."""
    after = -1
    while page := list(rows.filter(index__gt=after)[:PAGE_COUNT]):
        yield from page
        after = page[-1].index


def end_batch(batch: Batch, status: Batch.Status, now: datetime) -> None:
    """Set the batch's final status, announce it to webhooks, and have the output files of OpenAI's form written.

    Runs in the caller's transaction; the caller holds the batch's lock and saves `END_FIELDS`.
    """
    batch.status, batch.ended_at = status, now
    transaction.on_commit(partial(ENDED.add, 1, str(status)), robust=True)
    if batch.kind != Batch.Kind.NATIVE:
        transaction.on_commit(partial(send, WRITE_FILES_TASK, batch_pk=batch.pk), robust=True)
    data = {
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
    announce(user=batch.user, url=batch.webhook_url or None, event=BATCH_COMPLETE, data=data, now=now)


@transaction.atomic
def delete_batch(*, batch_pk: int) -> None:
    """Delete a batch with its requests, results and leases, each after the rows that refer to it."""
    batch_requests = BatchRequest.objects.filter(batch=batch_pk)
    BatchResult.objects.filter(request__in=batch_requests).delete()
    batch_requests.delete()
    Lease.objects.filter(batch=batch_pk).delete()
    Batch.objects.filter(pk=batch_pk).delete()


def unfinished_requests(batch: Batch) -> "QuerySet[BatchRequest]":
    """Return the batch's requests that are pending or running."""
    return BatchRequest.objects.filter(
        batch=batch, status__in=[BatchRequest.Status.PENDING, BatchRequest.Status.RUNNING]
    )


def storage_exceeded_message() -> str:
    """Return the error message for a user whose batches exceed MAX_BATCH_BYTES_PER_USER."""
    max_bytes, days = settings.MAX_BATCH_BYTES_PER_USER, settings.BATCH_RETENTION.total_seconds() / 86400
    return (
        f"Your batches and their results may take up to {max_bytes} bytes together. Wait until older batches are "
        f"deleted, {days:g} days after their end."
    )


def _require_storage(batches: "QuerySet[Batch]", size: int) -> None:
    """Raise ApiError 413 if a user's batches would exceed their storage."""
    used = batches.aggregate(size=Sum("size"))["size"] or 0
    if used + size > settings.MAX_BATCH_BYTES_PER_USER:
        raise ApiError(413, storage_exceeded_message())


def _require_fewer_batches(user: User) -> None:
    if Batch.objects.filter(user=user).count() >= MAX_BATCHES_PER_USER:
        days = settings.BATCH_RETENTION.total_seconds() / 86400
        message = f"You have {MAX_BATCHES_PER_USER} batches, the maximum: 0 are left. Each is deleted {days:g} days"
        raise ApiError(413, f"{message} after its end.")


def _require_queue_capacity(user: User, tokens: int) -> None:
    """Raise ApiError 413 or 429 if the user's open batches would exceed their queue.

    The limit leaves the batches of other users a chance on the same day.
    """
    max_tokens = settings.MAX_QUEUED_BATCH_TOKENS_PER_USER
    if tokens > max_tokens:
        message = f"The batch may take {tokens} tokens, and a user may have {max_tokens} queued. Split the batch."
        raise ApiError(413, message)
    queued = Batch.objects.filter(user=user, ended_at=None).aggregate(tokens=Sum("reserved_tokens"))["tokens"] or 0
    if queued + tokens > max_tokens:
        raise ApiError(
            429,
            f"Your batches may have up to {max_tokens} tokens queued. {queued} are queued, and this batch may take "
            f"{tokens}. Wait until a batch ends, or cancel one.",
            headers={"Retry-After": str(QUEUE_FULL_RETRY_SECONDS)} | NO_RETRY_HEADERS,
        )
