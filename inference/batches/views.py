"""Routes of batches: submit, look, cancel, and read what came of them."""

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from inference.access.operations import Call, operation
from inference.batches import answers, services
from inference.batches.accepting import accept_batch
from inference.batches.intake import ReadBatch, read_batch
from inference.batches.models import Batch
from inference.batches.streaming import ResultEvents, result_lines
from inference.protocol import batch as wire
from inference.protocol import sse
from inference.registry.services import find_loadable
from shared.accounts.models import User
from shared.accounts.roles import Permission
from shared.api.errors import ApiError

NDJSON = "application/x-ndjson"


@operation(
    "POST",
    summary="Submit a batch",
    permission=Permission.RUN_INFERENCE,
    body=wire.BatchBody,
    reader=read_batch,
    answer=wire.BatchAccepted,
)
async def submit(call: Call[ReadBatch]) -> HttpResponse:
    """Answers once the batch is written down with all its requests; from then on it is done, whatever breaks. With an
    `Idempotency-Key`, the same body again within a day is answered with the same batch."""
    if call.body.highest_priority > 0 and not call.caller.may(Permission.MANAGE_MODELS):
        raise ApiError(403, f"A priority above 0 needs the permission {Permission.MANAGE_MODELS}.")
    await find_loadable(call.body.model_id)
    return await sync_to_async(accept_batch)(
        request=call.request, caller=call.caller, asked=call.body, now=timezone.now()
    )


@operation(
    "GET",
    summary="List your batches",
    permission=Permission.RUN_INFERENCE,
    query=wire.ListQuery,
    answer=wire.BatchList,
)
async def list_batches(call: Call[None]) -> wire.BatchList:
    """Newest first."""
    return await sync_to_async(answers.batch_list)(user=call.caller.user, query=call.query)


@operation("GET", summary="One of your batches", permission=Permission.RUN_INFERENCE, answer=wire.BatchStatus)
async def status(call: Call[None], batch_id: str) -> wire.BatchStatus:
    """Its counts never go back."""
    return answers.batch_status(await _find(call.caller.user, batch_id))


@operation("POST", summary="Cancel one of your batches", permission=Permission.RUN_INFERENCE, answer=wire.BatchStatus)
async def cancel(call: Call[None], batch_id: str) -> wire.BatchStatus:
    """What is done is kept; what is running is dropped. One that has ended stays as it is."""
    found = await _find(call.caller.user, batch_id)
    return answers.batch_status(await sync_to_async(services.cancel_batch)(batch_pk=found.pk, now=timezone.now()))


@operation(
    "GET",
    summary="What came of a batch",
    permission=Permission.RUN_INFERENCE,
    query=wire.ResultsQuery,
    answer=wire.BatchResults,
    events=(wire.BatchResult, wire.BatchEnd),
)
async def results(call: Call[None], batch_id: str) -> wire.BatchResults | HttpResponseBase:
    """In the order of the requests, while it runs as well. `Accept: application/x-ndjson` sends all there are as lines;
    `Accept: text/event-stream` follows until the batch has ended, and resumes from `Last-Event-ID`."""
    found = await _find(call.caller.user, batch_id)
    accepted = call.request.headers.get("Accept", "")
    if sse.CONTENT_TYPE in accepted:
        after = _last_event(call.request.headers.get("Last-Event-ID"), call.query.after)
        return ResultEvents(found, after=after, principal=call.caller)
    if NDJSON in accepted:
        return result_lines(found, after=call.query.after, content_type=NDJSON)
    return await sync_to_async(answers.results_page)(batch=found, query=call.query)


async def _find(user: User, batch_id: str) -> Batch:
    """ApiError 404, also for another user's."""
    return await sync_to_async(answers.find_batch)(user=user, batch_id=batch_id)


def _last_event(told: str | None, after: int) -> int:
    """Where a client that lost its connection goes on. ApiError 400 for an id that is none of ours."""
    if told is None:
        return after
    if not (told.isascii() and told.isdigit() and len(told) < 10):
        raise ApiError(400, "Last-Event-ID is wrong: send the id of the last event that you have, or nothing.")
    return int(told)
