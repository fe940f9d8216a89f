"""Writing and deleting the requests of a batch in short transactions, so that other writers need not wait for them.

SQLite has one write lock: 50,000 requests in one transaction would hold it for seconds. Until the last transaction the
batch has an `accept_before`, which hides it from everybody. A process that is killed leaves such a batch behind, and
`delete_abandoned_batches` deletes it.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from inference.batches.models import Batch, BatchRequest
from shared.api.errors import ApiError

TARGET_SECONDS = 0.02  # of one transaction
PAUSE_SECONDS = 0.01  # between two on SQLite, in which writers of other processes get their turn
FIRST_CHUNK_COUNT = 200
MIN_CHUNK_COUNT = 200
MAX_CHUNK_COUNT = 1000
MAX_CHUNK_LENGTH = 512 * 1024  # characters of requests
REQUEST_OVERHEAD_BYTES = 512  # a request's row, its index entries and its result's row, without body and answer
ABANDONED_AFTER = timedelta(seconds=30)  # without a further request


def fit_chunk_count(*, count: int, seconds: float) -> int:
    """Return the number of rows of the next transaction, after one with `count` rows took so long."""
    fitting = int(count * TARGET_SECONDS / max(seconds, 1e-6))
    return min(MAX_CHUNK_COUNT, max(MIN_CHUNK_COUNT, fitting))


def insert_requests(batch: Batch, requests: Iterable[tuple[str, str]], *, on_last: Callable[[], None]) -> None:
    """Save the batch and insert its requests, given as (custom_id, body), and set its `total` and `size`.

    `on_last` is called in the last transaction, and shows the batch. Raises ApiError 400 for a wrong count or a
    duplicate id, and 503 if the sweeper has taken the batch for abandoned.
    """
    max_requests, count, pending = settings.MAX_BATCH_REQUESTS, FIRST_CHUNK_COUNT, iter(requests)
    chunk = _next_chunk(pending, count)
    while chunk:
        following = _next_chunk(pending, count)  # read before the transaction
        rows = [
            BatchRequest(batch=batch, index=batch.total + number, custom_id=custom_id, body=body)
            for number, (custom_id, body) in enumerate(chunk)
        ]
        batch.total += len(rows)
        batch.size += sum(REQUEST_OVERHEAD_BYTES + len(row.body.encode()) for row in rows)
        if batch.total > max_requests:
            break
        started = time.monotonic()
        with transaction.atomic():
            _save_hidden(batch)
            _insert(rows)
            if not following:
                on_last()
        count = fit_chunk_count(count=len(rows), seconds=time.monotonic() - started)
        if following:
            _pause()
        chunk = following
    if not 0 < batch.total <= max_requests:
        raise ApiError(400, f"`requests` must have 1 to {max_requests} items.")


def delete_in_steps(*, batch_pk: int) -> None:
    """Delete a batch with its requests in short transactions, unless it was accepted."""
    hidden = Batch.all_objects.filter(pk=batch_pk, accept_before__isnull=False)
    if not hidden.exists():
        return
    while keys := list(BatchRequest.objects.filter(batch=batch_pk).values_list("pk", flat=True)[:MIN_CHUNK_COUNT]):
        BatchRequest.objects.filter(pk__in=keys).delete()
        _pause()
    hidden.delete()


def sweep_abandoned_batches() -> None:
    """Run `delete_abandoned_batches` now, as a periodic task of servers: they are the writers."""
    delete_abandoned_batches(now=timezone.now())


def delete_abandoned_batches(*, now: datetime) -> int:
    """Delete the batches whose writer was killed before the last request. Return their number."""
    abandoned = list(Batch.all_objects.filter(accept_before__lte=now).values_list("pk", flat=True))
    for batch_pk in abandoned:
        # The new time stops the writer, if it lives after all.
        hidden = Batch.all_objects.filter(pk=batch_pk, accept_before__lte=now)
        if hidden.update(accept_before=now - ABANDONED_AFTER):
            delete_in_steps(batch_pk=batch_pk)
    return len(abandoned)


def _pause() -> None:
    if connection.vendor == "sqlite":
        time.sleep(PAUSE_SECONDS)


def _save_hidden(batch: Batch) -> None:
    """Insert the batch, or extend the time until which it counts as being written."""
    previous, batch.accept_before = batch.accept_before, timezone.now() + ABANDONED_AFTER
    if batch.pk is None:
        batch.save(force_insert=True)
        return
    rows = Batch.all_objects.filter(pk=batch.pk, accept_before=previous)
    if not rows.update(accept_before=batch.accept_before, total=batch.total, size=batch.size):
        raise ApiError(503, "Writing the batch took too long. Try again.", headers={"Retry-After": "1"})


def _insert(rows: list[BatchRequest]) -> None:
    try:
        BatchRequest.objects.bulk_create(rows)
    except IntegrityError as error:
        raise ApiError(400, "`id` must be unique in a batch, and two requests have the same.") from error


def _next_chunk(requests: Iterator[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Return the requests of one transaction, bounded by count and by length."""
    chunk: list[tuple[str, str]] = []
    length = 0
    while len(chunk) < count and length < MAX_CHUNK_LENGTH and (request := next(requests, None)):
        chunk.append(request)
        length += len(request[1])
    return chunk
