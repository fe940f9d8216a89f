"""Views of /v1/batches, and the wire form of OpenAI's batches."""

from datetime import datetime

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.utils import timezone

from inference.access.operations import OperationCall, operation
from inference.access.requests import heavy_request_slot
from inference.access.responses import json_response
from inference.batches.models import Batch
from inference.openai_batches import schema, services
from inference.openai_batches.models import FileBatch
from inference.protocol.openai.batches import (
    BatchRequestCounts,
    OpenAIBatch,
    OpenAIBatchCreateRequest,
    OpenAIBatchError,
    OpenAIBatchErrorList,
    OpenAIBatchesQuery,
    OpenAIBatchList,
    OpenAIBatchStatus,
    OpenAIBatchUsage,
)
from shared.accounts.roles import Permission
from shared.api.idempotency.store import store_keyed_response

COMPLETION_WINDOW = "24h"
# A batch whose requests all failed is completed: OpenAI's `failed` means an invalid input file.
_STATUS_WHILE_WRITING_FILES: dict[str, OpenAIBatchStatus] = {Batch.Status.CANCELLED: "cancelling"}
_FINAL_STATUS: dict[str, OpenAIBatchStatus] = {
    Batch.Status.CANCELLED: "cancelled",
    Batch.Status.EXPIRED: "expired",
}


@operation(
    "POST",
    docs=schema.CREATE_BATCH,
    permission=Permission.RUN_INFERENCE,
    body=OpenAIBatchCreateRequest,
    response=OpenAIBatch,
    idempotent=True,
)
async def create_batch(call: OperationCall[OpenAIBatchCreateRequest]) -> HttpResponse:
    async with heavy_request_slot(call.caller):
        return await sync_to_async(_create)(call)


@operation(
    "GET",
    docs=schema.LIST_BATCHES,
    permission=Permission.RUN_INFERENCE,
    query=OpenAIBatchesQuery,
    response=OpenAIBatchList,
)
async def list_batches(call: OperationCall[None]) -> OpenAIBatchList:
    query: OpenAIBatchesQuery = call.query
    batches, has_more = await sync_to_async(services.list_file_batches)(
        user=call.caller.user, after=query.after, limit=query.limit
    )
    data = [serialize_batch(file_batch) for file_batch in batches]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return OpenAIBatchList("list", data, first, last, has_more)


@operation("GET", docs=schema.READ_BATCH, permission=Permission.RUN_INFERENCE, response=OpenAIBatch)
async def read_batch(call: OperationCall[None], batch_id: str) -> OpenAIBatch:
    return serialize_batch(await sync_to_async(services.find_file_batch)(user=call.caller.user, batch_id=batch_id))


@operation("POST", docs=schema.CANCEL_BATCH, permission=Permission.RUN_INFERENCE, response=OpenAIBatch)
async def cancel_batch(call: OperationCall[None], batch_id: str) -> OpenAIBatch:
    return serialize_batch(
        await sync_to_async(services.cancel_file_batch)(user=call.caller.user, batch_id=batch_id, now=timezone.now())
    )


def serialize_batch(file_batch: FileBatch) -> OpenAIBatch:
    """Return the wire form. A batch with an invalid input file has no job; its one time is that of the failure."""
    job, status = file_batch.job, _status(file_batch)
    ended_at = {status: _timestamp(file_batch.finished_at)}
    cancelled = job is not None and job.status == Batch.Status.CANCELLED
    errors = [OpenAIBatchError(**error) for error in file_batch.errors]
    return OpenAIBatch(
        id=file_batch.batch_id,
        object="batch",
        endpoint=file_batch.endpoint,
        model=job.model_id if job else None,
        errors=OpenAIBatchErrorList("list", errors) if errors else None,
        input_file_id=file_batch.input_file_id,
        completion_window=COMPLETION_WINDOW,
        status=status,
        output_file_id=file_batch.output_file_id or None,
        error_file_id=file_batch.error_file_id or None,
        created_at=int(file_batch.created_at.timestamp()),
        in_progress_at=_timestamp(job.created_at) if job else None,
        expires_at=_timestamp(job.expires_at) if job else None,
        finalizing_at=_timestamp(job.ended_at) if job and not cancelled else None,
        completed_at=ended_at.get("completed"),
        failed_at=ended_at.get("failed"),
        expired_at=ended_at.get("expired"),
        cancelling_at=_timestamp(job.ended_at) if job and cancelled else None,
        cancelled_at=ended_at.get("cancelled"),
        request_counts=BatchRequestCounts(*((job.total, job.completed, job.failed) if job else (0, 0, 0))),
        metadata=file_batch.metadata,
        usage=_usage(job) if job else None,
    )


def _usage(job: Batch) -> OpenAIBatchUsage:
    total = job.prompt_tokens + job.completion_tokens
    return OpenAIBatchUsage(job.prompt_tokens, job.completion_tokens, total)


def _status(file_batch: FileBatch) -> OpenAIBatchStatus:
    if file_batch.job is None:
        return "failed"
    if file_batch.job.ended_at is None:
        return "in_progress"
    if file_batch.finished_at is None:
        return _STATUS_WHILE_WRITING_FILES.get(file_batch.job.status, "finalizing")
    return _FINAL_STATUS.get(file_batch.job.status, "completed")


def _timestamp(time: datetime | None) -> int | None:
    return int(time.timestamp()) if time else None


def _create(call: OperationCall[OpenAIBatchCreateRequest]) -> HttpResponse:
    """Create the batch. In its transaction, store the response for the request's Idempotency-Key."""

    def store(file_batch: FileBatch) -> None:
        store_keyed_response(call.request, _response(file_batch))

    batch = services.create_file_batch(caller=call.caller, body=call.body, now=timezone.now(), on_created=store)
    return _response(batch)


def _response(file_batch: FileBatch) -> HttpResponse:
    return json_response(serialize_batch(file_batch))
