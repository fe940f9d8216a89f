"""Making batches of files, and writing the files of batches that have ended."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.utils import timezone
from msgspec import to_builtins

from inference.batches.models import Batch, new_batch_id
from inference.batches.outcomes import FINISH
from inference.batches.services import NewRequest, cancel_batch, create_batch
from inference.config.celery import send
from inference.files.models import StoredFile
from inference.files.services import finish_file, no_such_file, write_file
from inference.openai_batches.checking import CheckedFile, check_file, read_requests
from inference.openai_batches.lines import error_lines, output_lines
from inference.openai_batches.models import FileBatch
from inference.protocol.openai_batches import BatchBody, BatchError
from inference.registry.catalog import model_not_found, read_catalog
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.services import lock_active
from shared.api.errors import ApiError

KINDS = {
    "/v1/chat/completions": Batch.Kind.CHAT,
    "/v1/completions": Batch.Kind.COMPLETION,
    "/v1/embeddings": Batch.Kind.EMBEDDING,
}
MOST_A_ROUND = 20
MOST_FAILED = 1000  # of one user, whose files were wrong
FINISHES_WITHIN = timedelta(minutes=2)  # from the last sign of life of who writes the files
SAYS_SO_EVERY = timedelta(seconds=20)
SLOWEST_STORAGE = 1024 * 1024  # bytes a second
TRIES_AGAIN_AFTER = timedelta(seconds=30)  # meanwhile others have their turn

logger = structlog.get_logger(__name__)


def create_file_batch(
    *, caller: Principal, body: BatchBody, now: datetime, with_it: Callable[[FileBatch], None] = lambda made: None
) -> FileBatch:
    """Checks the whole file, and accepts the batch with all its requests; a batch that has failed, with what is wrong
    by line, where a line is wrong. `with_it` is done in the transaction that makes it. Raises ApiError 404, 400 for a
    file that is none of theirs, or not for batches."""
    file = _input_file(caller.user, body)
    try:
        content = default_storage.open(file.path)
    except FileNotFoundError:  # deleted in between
        raise no_such_file(file.file_id, field="input_file_id") from None
    if not connection.in_atomic_block:
        connection.close()  # to the pool, for others: the check may take many seconds
    with content:
        checked = check_file(content.chunks(), endpoint=body.endpoint, most=settings.BATCH_MOST_REQUESTS)
        _check_model(checked)
        with transaction.atomic():
            made = _make(caller, body, content, checked, now)
            with_it(made)
        return made


def _input_file(user: User, body: BatchBody) -> StoredFile:
    file = StoredFile.objects.for_user(user).filter(file_id=body.input_file_id).first()
    if file is None:
        raise no_such_file(body.input_file_id, field="input_file_id")
    if file.purpose != StoredFile.Purpose.BATCH:
        message = "input_file_id is wrong: it is what a batch has written; upload a file with the purpose batch."
        raise ApiError(400, message, details={"field": "input_file_id"})
    return file


def _check_model(checked: CheckedFile) -> None:
    catalog = read_catalog()
    if checked.model is not None and checked.model not in catalog:
        message = model_not_found(checked.model, catalog).problem.message
        checked.errors.insert(0, BatchError("model_not_found", message, param="body.model"))


def _said(user: User, body: BatchBody, now: datetime) -> dict[str, Any]:
    return {
        "user": user,
        "endpoint": body.endpoint,
        "input_file_id": body.input_file_id,
        "metadata": body.metadata,
        "output_kept_s": body.output_expires_after.seconds if body.output_expires_after else None,
        "created_at": now,
    }


def _make(caller: Principal, body: BatchBody, content: Any, checked: CheckedFile, now: datetime) -> FileBatch:
    said = _said(caller.user, body, now)
    if checked.errors or checked.model is None:
        lock_active(caller.user)
        _forget_failed(caller.user)
        return FileBatch.objects.create(
            batch_id=new_batch_id(), errors=to_builtins(checked.errors), finished_at=now, **said
        )
    job = create_batch(
        user=caller.user,
        api_key=caller.api_key,
        kind=KINDS[body.endpoint],
        model_id=checked.model,
        requests=(NewRequest(custom_id, text) for custom_id, text in read_requests(content.chunks())),
        tokens=checked.tokens,
        now=now,
    )
    return FileBatch.objects.create(batch_id=job.batch_id, job=job, **said)


def _forget_failed(user: User) -> None:
    """So that wrong files, sent again and again, do not fill the database: the oldest of those that never began go."""
    failed = FileBatch.objects.for_user(user).filter(job=None).values_list("pk", flat=True)
    FileBatch.objects.filter(pk__in=list(failed[MOST_FAILED - 1 :])).delete()


def find_file_batch(*, user: User, batch_id: str, field: str = "id") -> FileBatch:
    """Raises ApiError 404 for one that is not there or not theirs."""
    made = FileBatch.objects.for_user(user).filter(batch_id=batch_id).first()
    if made is None:
        raise ApiError(404, f"There is no batch {batch_id[:100]!r} of yours.", details={"field": field})
    return made


def list_file_batches(*, user: User, after: str | None, limit: int) -> tuple[list[FileBatch], bool]:
    """A page, newest first, that begins behind the batch `after`, and whether there is more. Raises ApiError 404."""
    batches = FileBatch.objects.for_user(user)
    if after is not None:
        batches = batches.filter(pk__lt=find_file_batch(user=user, batch_id=after, field="after").pk)
    page = list(batches[: limit + 1])
    return page[:limit], len(page) > limit


def cancel_file_batch(*, user: User, batch_id: str, now: datetime) -> FileBatch:
    """Ends the batch with what it has; what was done is written to its files. Raises ApiError 404, and 400 for one that
    has ended otherwise."""
    made = find_file_batch(user=user, batch_id=batch_id)
    if made.job is not None:
        made.job = cancel_batch(batch_pk=made.job.pk, now=now)
    if made.job is None or made.job.status != Batch.Status.CANCELLED:
        raise ApiError(400, "The batch has ended: there is nothing to cancel.")
    return made


def finish_file_batch(*, batch_pk: int, now: datetime, clock: Callable[[], datetime] = timezone.now) -> bool:
    """Writes the files of a batch whose job has ended. Says whether it did: not twice, whoever else tries. Others wait
    for as long as it takes."""
    to_finish = FileBatch.objects.to_finish(now).filter(job=batch_pk)
    made = to_finish.select_related("job", "user").first()
    if made is None or made.job is None or not to_finish.update(finishing_until=now + FINISHES_WITHIN):
        return False
    try:
        return _write_files(made, made.job, clock)
    except BaseException:
        FileBatch.objects.filter(pk=made.pk).update(finishing_until=clock() + TRIES_AGAIN_AFTER)
        raise


def _write_files(made: FileBatch, job: Batch, clock: Callable[[], datetime]) -> bool:
    output = _write(made, "output", output_lines(job), clock) if job.completed else None
    errors = _write(made, "errors", error_lines(job), clock) if job.completed < job.total else None
    return _finish(made, output, errors, clock())


def _write(made: FileBatch, what: str, lines: Iterator[bytes], clock: Callable[[], datetime]) -> StoredFile:
    kept = _while_written(made, lines, clock)
    return write_file(owner=made.user, name=f"{made.batch_id}_{what}.jsonl", lines=kept, now=clock())


def _while_written(made: FileBatch, lines: Iterator[bytes], clock: Callable[[], datetime]) -> Iterator[bytes]:
    """The lines; nobody else begins while they come, nor while the storage takes them afterwards."""
    said, size = clock(), 0
    for line in lines:
        if clock() >= said + SAYS_SO_EVERY:
            said = clock()
            _hold(made, said + FINISHES_WITHIN)
        size += len(line)
        yield line
    _hold(made, clock() + FINISHES_WITHIN + timedelta(seconds=size / SLOWEST_STORAGE))


def _hold(made: FileBatch, until: datetime) -> None:
    FileBatch.objects.filter(pk=made.pk).update(finishing_until=until)


@transaction.atomic
def _finish(made: FileBatch, output: StoredFile | None, errors: StoredFile | None, now: datetime) -> bool:
    """Where that took so long that somebody else was first, what was written here is nobody's, and is swept."""
    finished = FileBatch.objects.filter(pk=made.pk, finished_at=None).update(
        finished_at=now,
        output_file_id=output.file_id if output else "",
        error_file_id=errors.file_id if errors else "",
    )
    if not finished:
        return False
    kept_for = timedelta(seconds=made.output_kept_s) if made.output_kept_s else settings.BATCH_KEPT_FOR
    for file in (output, errors):
        if file is not None:
            finish_file(file=file, expires_at=file.created_at + kept_for)
    return True


def sweep_file_batches(*, now: datetime) -> None:
    """Forgets the batches that never began, in time, and sends for those whose files nobody writes: a message may be
    lost. What no broker takes is written here."""
    FileBatch.objects.filter(job=None, created_at__lte=now - settings.BATCH_KEPT_FOR).delete()
    ended = list(FileBatch.objects.to_finish(now).values_list("job", flat=True)[:MOST_A_ROUND])
    is_sent = True
    for batch_pk in filter(None, ended):
        is_sent = is_sent and send(FINISH, batch_pk=batch_pk)
        if not is_sent:
            finish_file_batch(batch_pk=batch_pk, now=timezone.now())
