"""Streams of results: JSON lines, and server-sent events that follow a running batch.

Results are read from the database a page at a time; a slow client holds neither memory nor a database connection.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
from django.http import StreamingHttpResponse

from inference.batches.models import Batch
from inference.batches.results import read_results, serialize_result
from inference.protocol import sse
from inference.protocol.errors import ErrorCode, native_error_body
from inference.protocol.native.batches import BatchEndEvent, BatchState
from shared.accounts.authentication import NotAuthenticated, Principal
from shared.accounts.middleware.connections import AuthenticatedConnection, AuthenticatedStream, ConnectionRegistry
from shared.request_threads import run_in_request_thread
from shared.serving.asgi.threads import release_request_thread

POLL_INTERVAL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0
MAX_STREAMS_PER_USER = 20  # in one process; each polls the database for up to a day

_encoder = msgspec.json.Encoder()
_connections = ConnectionRegistry(max_per_user=MAX_STREAMS_PER_USER)


def stream_lines(batch: Batch, *, after: int, content_type: str) -> StreamingHttpResponse:
    """Return a response with the results available now, one JSON object a line."""
    return StreamingHttpResponse(_lines(batch, after), content_type=content_type, headers=sse.HEADERS)


class ResultEventStream(AuthenticatedStream):
    """Response with an event for each result, available now or later, and a last event when the batch has ended.

    An event's id is the request's index. The stream ends early once the credential is invalid or the process shuts
    down. Create it on the event loop. Raises ApiError 503 if the user has MAX_STREAMS_PER_USER open streams.
    """

    def __init__(self, batch: Batch, *, after: int, principal: Principal) -> None:
        credential_lost, shutting_down = asyncio.Event(), asyncio.Event()
        client = AuthenticatedConnection(principal, on_revoked=credential_lost.set, on_drain=shutting_down.set)
        events = _events(batch, after, credential_lost, shutting_down)
        super().__init__(
            events, registry=_connections, client=client, content_type=sse.CONTENT_TYPE, headers=sse.HEADERS
        )


async def _lines(batch: Batch, after: int) -> AsyncIterator[bytes]:
    while (page := await run_in_request_thread(read_results, batch, after=after)).requests:
        yield b"".join(_encoder.encode(serialize_result(request)) + b"\n" for request in page.requests)
        after = page.requests[-1].index


async def _events(
    batch: Batch, after: int, credential_lost: asyncio.Event, shutting_down: asyncio.Event
) -> AsyncIterator[bytes]:
    last_sent = time.monotonic()
    while not (credential_lost.is_set() or shutting_down.is_set()):
        try:
            page = await run_in_request_thread(read_results, batch, after=after)
        except Batch.DoesNotExist:  # deleted with its user
            credential_lost.set()
            break
        for request in page.requests:
            yield b"id: %d\n" % request.index + sse.encode_event(serialize_result(request))
            after, last_sent = request.index, time.monotonic()
        if page.is_last:
            await run_in_request_thread(batch.refresh_from_db)
            end = BatchEndEvent(True, BatchState(batch.status), batch.total, batch.completed, batch.failed)
            yield sse.encode_event(end)
            return
        if not page.requests:
            release_request_thread()
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
        if time.monotonic() > last_sent + KEEP_ALIVE_SECONDS:
            last_sent = time.monotonic()
            yield sse.KEEP_ALIVE
    if credential_lost.is_set():
        yield sse.encode_event(native_error_body(ErrorCode.AUTHENTICATION_FAILED, NotAuthenticated().problem.message))
