"""Views of /batch: submit, list, read and cancel batches, and read or stream their results."""

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from inference.access.operations import OperationCall, operation
from inference.batches import schema, services
from inference.batches.models import Batch
from inference.batches.results import find_batch, list_results, serialize_batch
from inference.batches.results import list_batches as list_own_batches
from inference.batches.streaming import ResultEventStream, stream_lines
from inference.batches.submission import ParsedBatch, parse_batch, submit_batch
from inference.protocol import sse
from inference.protocol.native.batches import (
    BatchCreateRequest,
    BatchCreateResponse,
    BatchEndEvent,
    BatchItemResult,
    BatchList,
    BatchListQuery,
    BatchResultsPage,
    BatchResultsQuery,
    BatchStatusResponse,
)
from inference.registry.services import find_loadable_model
from shared.accounts.models import User
from shared.accounts.roles import Permission
from shared.api.errors import ApiError

NDJSON = "application/x-ndjson"


@operation(
    "POST",
    docs=schema.CREATE_BATCH,
    permission=Permission.RUN_INFERENCE,
    body=BatchCreateRequest,
    body_reader=parse_batch,
    response=BatchCreateResponse,
    idempotent=True,
)
async def submit(call: OperationCall[ParsedBatch]) -> HttpResponse:
    if call.body.max_priority > 0 and not call.caller.has_permission(Permission.MANAGE_MODELS):
        raise ApiError(403, f"A priority above 0 needs the permission {Permission.MANAGE_MODELS}.")
    await find_loadable_model(call.body.model_id)
    return await sync_to_async(submit_batch)(
        request=call.request, caller=call.caller, parsed=call.body, now=timezone.now()
    )


@operation(
    "GET",
    docs=schema.LIST_BATCHES,
    permission=Permission.RUN_INFERENCE,
    query=BatchListQuery,
    response=BatchList,
)
async def list_batches(call: OperationCall[None]) -> BatchList:
    return await sync_to_async(list_own_batches)(user=call.caller.user, query=call.query)


@operation("GET", docs=schema.BATCH_STATUS, permission=Permission.RUN_INFERENCE, response=BatchStatusResponse)
async def status(call: OperationCall[None], batch_id: str) -> BatchStatusResponse:
    return serialize_batch(await _find(call.caller.user, batch_id))


@operation("POST", docs=schema.CANCEL_BATCH, permission=Permission.RUN_INFERENCE, response=BatchStatusResponse)
async def cancel(call: OperationCall[None], batch_id: str) -> BatchStatusResponse:
    batch = await _find(call.caller.user, batch_id)
    return serialize_batch(await sync_to_async(services.cancel_batch)(batch_pk=batch.pk, now=timezone.now()))


@operation(
    "GET",
    docs=schema.BATCH_RESULTS,
    permission=Permission.RUN_INFERENCE,
    query=BatchResultsQuery,
    response=BatchResultsPage,
    events=(BatchItemResult, BatchEndEvent),
)
async def results(call: OperationCall[None], batch_id: str) -> BatchResultsPage | HttpResponseBase:
    batch = await _find(call.caller.user, batch_id)
    accepted = call.request.headers.get("Accept", "")
    if sse.CONTENT_TYPE in accepted:
        after = _parse_last_event_id(call.request.headers.get("Last-Event-ID"), default=call.query.after)
        return ResultEventStream(batch, after=after, principal=call.caller)
    if NDJSON in accepted:
        return stream_lines(batch, after=call.query.after, content_type=NDJSON)
    return await sync_to_async(list_results)(batch=batch, query=call.query)


async def _find(user: User, batch_id: str) -> Batch:
    return await sync_to_async(find_batch)(user=user, batch_id=batch_id)


def _parse_last_event_id(header: str | None, *, default: int) -> int:
    """Return the index after which to resume. Raises ApiError 400 for an id that is not an index."""
    if header is None:
        return default
    if not (header.isascii() and header.isdigit() and len(header) < 10):
        raise ApiError(400, "`Last-Event-ID` must be the id of an event of this stream, or be left out.")
    return int(header)
