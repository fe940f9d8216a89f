"""Services of OpenAI's batches: create a batch from an input file, find, list and cancel.

The whole input file is validated in the request that creates the batch, before the transaction: 50,000 lines of 2 kB
take 10 s, and the database's write lock is held for some inserts at a time.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import connection, transaction
from msgspec import to_builtins

from inference.access.responses import ObjectNotFound
from inference.batches.models import Batch, new_batch_id
from inference.batches.services import cancel_batch, create_batch
from inference.files.models import StoredFile
from inference.openai_batches.handover.services import hand_over_if_offered
from inference.openai_batches.input_file import InputFileReport, read_requests, validate_file
from inference.openai_batches.models import FileBatch
from inference.protocol.openai.batches import OpenAIBatchCreateRequest, OpenAIBatchError
from inference.registry.catalog import model_not_found, read_catalog
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError

MESSAGES = "/v1/messages"
KIND_BY_ENDPOINT = {
    "/v1/chat/completions": Batch.Kind.CHAT,
    "/v1/completions": Batch.Kind.COMPLETION,
    "/v1/embeddings": Batch.Kind.EMBEDDING,
    "/v1/responses": Batch.Kind.RESPONSE,
    MESSAGES: Batch.Kind.MESSAGE,
}
MAX_INVALID_BATCHES = 1000  # of one user


def create_file_batch(
    *,
    caller: Principal,
    body: OpenAIBatchCreateRequest,
    now: datetime,
    on_created: Callable[[FileBatch], None] | None = None,
) -> FileBatch:
    """Validate the input file and create the batch, or a failed batch with the errors by line.

    on_created: called in the transaction that creates it.

    Raises ApiError 404 for a file that is not the user's, 400 for one with another purpose and for an endpoint that is
    switched off, and the errors of `create_batch`.
    """
    if body.endpoint == MESSAGES and not settings.ANTHROPIC_API:
        message = f"`endpoint` must be another one: the operator does not offer {MESSAGES}."
        raise ApiError(400, message, details={"field": "endpoint"})
    file = _find_input_file(caller.user, body)
    try:
        content = default_storage.open(file.path)
    except FileNotFoundError:  # deleted meanwhile
        raise ObjectNotFound("file", file.file_id, field="input_file_id") from None
    if not connection.in_atomic_block:
        connection.close()  # validation may take seconds: other requests need the pooled connection
    with content:
        report = validate_file(content.chunks(), endpoint=body.endpoint, max_requests=settings.MAX_BATCH_REQUESTS)
        _require_model(report)
        return _create(caller, body, content, report, now, on_created)


def find_file_batch(*, user: User, batch_id: str, field: str = "id") -> FileBatch:
    """Return one of the user's batches. Raises ApiError 404, for another user's too."""
    file_batch = FileBatch.objects.for_user(user).filter(batch_id=batch_id).first()
    if file_batch is None:
        raise ObjectNotFound("batch", batch_id, field=field)
    return file_batch


def list_file_batches(*, user: User, after: str | None, limit: int) -> tuple[list[FileBatch], bool]:
    """Return a page, newest first, and whether more follow. Raises ApiError 404 if `after` is not the user's."""
    batches = FileBatch.objects.for_user(user)
    if after is not None:
        batches = batches.filter(pk__lt=find_file_batch(user=user, batch_id=after, field="after").pk)
    page = list(batches[: limit + 1])
    return page[:limit], len(page) > limit


def cancel_file_batch(*, user: User, batch_id: str, now: datetime) -> FileBatch:
    """Cancel the batch; its finished results are written to the output file.

    Raises ApiError 404, and 400 for a batch that has ended otherwise.
    """
    file_batch = find_file_batch(user=user, batch_id=batch_id)
    if file_batch.job is not None:
        file_batch.job = cancel_batch(batch_pk=file_batch.job.pk, now=now)
    if file_batch.job is None or file_batch.job.status != Batch.Status.CANCELLED:
        raise ApiError(400, "The batch has already ended and cannot be cancelled.")
    return file_batch


def _find_input_file(user: User, body: OpenAIBatchCreateRequest) -> StoredFile:
    file = StoredFile.objects.for_user(user).filter(file_id=body.input_file_id).first()
    if file is None:
        raise ObjectNotFound("file", body.input_file_id, field="input_file_id")
    if file.purpose != StoredFile.Purpose.BATCH:
        message = f"`input_file_id` must be a file with the purpose batch, not {file.purpose}."
        raise ApiError(400, message, details={"field": "input_file_id"})
    return file


def _require_model(report: InputFileReport) -> None:
    """Add an error to the report if its model does not exist."""
    catalog = read_catalog()
    if report.model is not None and report.model not in catalog:
        message = model_not_found(report.model, catalog).problem.message
        report.errors.insert(0, OpenAIBatchError("model_not_found", message, param="body.model"))


def _create(
    caller: Principal,
    body: OpenAIBatchCreateRequest,
    content: Any,
    report: InputFileReport,
    now: datetime,
    on_created: Callable[[FileBatch], None] | None,
) -> FileBatch:
    file_batch = FileBatch(
        user=caller.user,
        endpoint=body.endpoint,
        input_file_id=body.input_file_id,
        metadata=body.metadata,
        output_ttl_seconds=body.output_expires_after.seconds if body.output_expires_after else None,
        created_at=now,
    )

    def save(job: Batch | None) -> None:
        file_batch.job, file_batch.batch_id = job, job.batch_id if job else new_batch_id()
        file_batch.save(force_insert=True)
        hand_over_if_offered(file_batch, now=now)
        if on_created:
            on_created(file_batch)

    if report.errors or report.model is None:
        file_batch.errors, file_batch.finished_at = to_builtins(report.errors), now
        with transaction.atomic():
            lock_active_user(caller.user)
            _delete_oldest_invalid(caller.user)
            save(None)
        return file_batch
    create_batch(
        user=caller.user,
        api_key=caller.api_key,
        kind=KIND_BY_ENDPOINT[body.endpoint],
        model_id=report.model,
        requests=read_requests(content.chunks()),
        tokens=report.tokens,
        on_created=save,
        now=now,
    )
    return file_batch


def _delete_oldest_invalid(user: User) -> None:
    """Delete the user's oldest invalid batches: repeated uploads of invalid files must not fill the database."""
    invalid = FileBatch.objects.for_user(user).filter(job=None).values_list("pk", flat=True)
    FileBatch.objects.filter(pk__in=list(invalid[MAX_INVALID_BATCHES - 1 :])).delete()
