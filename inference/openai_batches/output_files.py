"""Output and error files of OpenAI's batches: form their lines, and write them once a batch has ended.

One worker writes the files of a batch, under a lease that it renews. A sweeper finds the batches whose task was lost.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from inference.batches.dispatch import WRITE_FILES_TASK
from inference.batches.models import Batch, BatchRequest, BatchResult
from inference.batches.services import EXPIRED_MESSAGE
from inference.config.celery import send
from inference.files.models import StoredFile
from inference.files.services import finish_file, write_file
from inference.openai_batches.models import FileBatch
from inference.protocol.anthropic.errors import anthropic_error_body
from inference.protocol.errors import ErrorCode, openai_error_body
from inference.protocol.openai.batches import BatchOutputError, BatchOutputLine, BatchOutputResponse

PAGE_SIZE = 32  # an answer may be megabytes of vectors
MAX_PER_SWEEP = 20
LEASE_DURATION = timedelta(minutes=2)
LEASE_RENEW_INTERVAL = timedelta(seconds=20)
RETRY_DELAY = timedelta(seconds=30)
MIN_STORAGE_BYTES_PER_SECOND = 1024 * 1024

_STATUS_CODES = {
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: 400,
    ErrorCode.MODEL_NOT_LOADED: 400,
    ErrorCode.AUTHORIZATION_FAILED: 403,
    ErrorCode.MODEL_NOT_FOUND: 404,
    ErrorCode.TIMEOUT: 503,
}
_UNFINISHED_ERRORS = {
    BatchRequest.Status.CANCELLED: BatchOutputError("batch_cancelled", "The batch was cancelled before this was done."),
    BatchRequest.Status.FAILED: BatchOutputError("batch_expired", EXPIRED_MESSAGE),
}
_encoder = msgspec.json.Encoder()


def write_output_files(*, batch_pk: int, now: datetime, clock: Callable[[], datetime] = timezone.now) -> bool:
    """Write the files of an ended batch. Return whether this call did; only one of concurrent calls does."""
    candidates = FileBatch.objects.without_output_files(now).filter(job=batch_pk)
    file_batch = candidates.select_related("job", "user").first()
    if file_batch is None or file_batch.job is None:
        return False
    if not candidates.update(write_lease_expires_at=now + LEASE_DURATION):
        return False
    try:
        return _write_files(file_batch, file_batch.job, clock)
    except BaseException:
        _set_lease(file_batch, clock() + RETRY_DELAY)
        raise


def sweep_file_batches(*, now: datetime) -> None:
    """Delete invalid batches past their retention, and send the task for ended batches without files.

    If the broker cannot be reached, the files are written here.
    """
    FileBatch.objects.filter(job=None, created_at__lte=now - settings.BATCH_RETENTION).delete()
    jobs = list(FileBatch.objects.without_output_files(now).values_list("job", flat=True)[:MAX_PER_SWEEP])
    is_sent = True
    for batch_pk in filter(None, jobs):
        is_sent = is_sent and send(WRITE_FILES_TASK, batch_pk=batch_pk)
        if not is_sent:
            write_output_files(batch_pk=batch_pk, now=timezone.now())


def output_lines(job: Batch) -> Iterator[bytes]:
    """Yield the lines of the completed requests, in the order of the input."""
    for request, result in _results(job, [BatchRequest.Status.COMPLETED]):
        if result is not None:
            response = BatchOutputResponse(200, _line_id(job, request, "req"), msgspec.Raw(result.answer.encode()))
            yield _encode_line(job, request, response)


def error_lines(job: Batch) -> Iterator[bytes]:
    """Yield the lines of the failed and unfinished requests, in the order of the input."""
    for request, result in _results(job, [BatchRequest.Status.FAILED, BatchRequest.Status.CANCELLED]):
        if result is None or (job.status == Batch.Status.EXPIRED and result.error_message == EXPIRED_MESSAGE):
            yield _encode_line(job, request, None, _UNFINISHED_ERRORS[BatchRequest.Status(request.status)])
        else:
            yield _encode_line(job, request, _error_response(job, request, result))


def _error_response(job: Batch, request: BatchRequest, result: BatchResult) -> BatchOutputResponse:
    code = result.error_code
    status = _STATUS_CODES.get(ErrorCode(code), 500) if code in ErrorCode.__members__ else 500
    if job.kind == Batch.Kind.MESSAGE:
        body = anthropic_error_body(result.error_message, status)
    else:
        body = openai_error_body(code, result.error_message, status)
    return BatchOutputResponse(status, _line_id(job, request, "req"), body)


def _encode_line(
    job: Batch, request: BatchRequest, response: BatchOutputResponse | None, error: BatchOutputError | None = None
) -> bytes:
    line = BatchOutputLine(_line_id(job, request, "batch_req"), request.custom_id, response, error)
    return _encoder.encode(line) + b"\n"


def _line_id(job: Batch, request: BatchRequest, prefix: str) -> str:
    """Return an id that is the same however often the files are written. It appears in no log."""
    return f"{prefix}_{job.batch_id.removeprefix('batch_')}_{request.index}"


def _results(job: Batch, statuses: list[Any]) -> Iterator[tuple[BatchRequest, BatchResult | None]]:
    """Yield requests with their results by pages of indexes: every database then uses the index, and no cursor is open
    while files are written."""
    requests = BatchRequest.objects.filter(batch=job, status__in=statuses).defer("body").select_related("result")
    for start in range(0, job.total, PAGE_SIZE):
        for request in requests.filter(index__gte=start, index__lt=start + PAGE_SIZE).order_by("index"):
            yield request, getattr(request, "result", None)


def _write_files(file_batch: FileBatch, job: Batch, clock: Callable[[], datetime]) -> bool:
    output = _write_file(file_batch, "output", output_lines(job), clock) if job.completed else None
    errors = _write_file(file_batch, "errors", error_lines(job), clock) if job.completed < job.total else None
    return _finish(file_batch, output, errors, clock())


def _write_file(
    file_batch: FileBatch, suffix: str, lines: Iterator[bytes], clock: Callable[[], datetime]
) -> StoredFile:
    name = f"{file_batch.batch_id}_{suffix}.jsonl"
    return write_file(owner=file_batch.user, name=name, lines=_renewing(file_batch, lines, clock), now=clock())


def _renewing(file_batch: FileBatch, lines: Iterator[bytes], clock: Callable[[], datetime]) -> Iterator[bytes]:
    """Yield the lines and renew the lease meanwhile; at the end, for as long as the storage may take."""
    renewed_at, size = clock(), 0
    for line in lines:
        if clock() >= renewed_at + LEASE_RENEW_INTERVAL:
            renewed_at = clock()
            _set_lease(file_batch, renewed_at + LEASE_DURATION)
        size += len(line)
        yield line
    _set_lease(file_batch, clock() + LEASE_DURATION + timedelta(seconds=size / MIN_STORAGE_BYTES_PER_SECOND))


def _set_lease(file_batch: FileBatch, expires_at: datetime) -> None:
    FileBatch.objects.filter(pk=file_batch.pk).update(write_lease_expires_at=expires_at)


@transaction.atomic
def _finish(file_batch: FileBatch, output: StoredFile | None, errors: StoredFile | None, now: datetime) -> bool:
    """Publish the files. Return False if another worker was faster; the sweeper then deletes these files."""
    finished = FileBatch.objects.filter(pk=file_batch.pk, finished_at=None).update(
        finished_at=now,
        output_file_id=output.file_id if output else "",
        error_file_id=errors.file_id if errors else "",
    )
    if not finished:
        return False
    ttl_seconds = file_batch.output_ttl_seconds
    retention = timedelta(seconds=ttl_seconds) if ttl_seconds else settings.BATCH_RETENTION
    for file in (output, errors):
        if file is not None:
            finish_file(file=file, expires_at=file.created_at + retention)
    return True
