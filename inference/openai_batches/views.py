"""Routes of OpenAI's batches."""

from asgiref.sync import sync_to_async
from django.http import HttpResponse
from django.utils import timezone

from inference.access.operations import Call, long_turn, operation
from inference.openai_batches import services
from inference.openai_batches.accepting import accept_file_batch
from inference.openai_batches.wire import wire_batch
from inference.protocol import openai_batches
from shared.accounts.roles import Permission


@operation(
    "POST",
    summary="Make a batch of a file (OpenAI)",
    permission=Permission.RUN_INFERENCE,
    body=openai_batches.BatchBody,
    answer=openai_batches.OpenAIBatch,
)
async def create_batch(call: Call[openai_batches.BatchBody]) -> HttpResponse:
    """The whole file is checked first: `failed`, with `errors` by line, or `in_progress`, and then it is kept. With an
    `Idempotency-Key`, the same body again within a day is answered with the same batch."""
    async with long_turn(call.caller):
        return await sync_to_async(accept_file_batch)(
            request=call.request, caller=call.caller, body=call.body, now=timezone.now()
        )


@operation(
    "GET",
    summary="List your batches of files (OpenAI)",
    permission=Permission.RUN_INFERENCE,
    query=openai_batches.BatchesQuery,
    answer=openai_batches.BatchPage,
)
async def list_batches(call: Call[None]) -> openai_batches.BatchPage:
    """Your own, newest first."""
    asked: openai_batches.BatchesQuery = call.query
    batches, has_more = await sync_to_async(services.list_file_batches)(
        user=call.caller.user, after=asked.after, limit=asked.limit
    )
    data = [wire_batch(made) for made in batches]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return openai_batches.BatchPage("list", data, first, last, has_more)


@operation("GET", summary="One batch (OpenAI)", permission=Permission.RUN_INFERENCE, answer=openai_batches.OpenAIBatch)
async def read_batch(call: Call[None], batch_id: str) -> openai_batches.OpenAIBatch:
    """Where it is, and the files that it has written."""
    return wire_batch(await sync_to_async(services.find_file_batch)(user=call.caller.user, batch_id=batch_id))


@operation(
    "POST", summary="Cancel a batch (OpenAI)", permission=Permission.RUN_INFERENCE, answer=openai_batches.OpenAIBatch
)
async def cancel_batch(call: Call[None], batch_id: str) -> openai_batches.OpenAIBatch:
    """What was done is kept, and written to its files."""
    return wire_batch(
        await sync_to_async(services.cancel_file_batch)(user=call.caller.user, batch_id=batch_id, now=timezone.now())
    )
