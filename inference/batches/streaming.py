"""Results as a stream, read from the database in pieces: who reads slowly holds neither memory nor a connection."""

import asyncio
import time
import weakref
from collections.abc import AsyncIterator

import msgspec
from asgiref.sync import sync_to_async
from django.db import connection
from django.http import StreamingHttpResponse

from inference.batches.models import Batch
from inference.batches.results import Piece, read_piece, wire_result
from inference.protocol import sse
from inference.protocol.batch import BatchEnd, BatchState
from inference.protocol.errors import Code, native_error
from shared.accounts.authentication import NotAuthenticated, Principal
from shared.accounts.middleware import Attendance, Attendant
from shared.serving.kept_threads import let_thread_go

LOOKS_EVERY_S = 0.5
KEEP_ALIVE_S = 15.0
MOST_FOLLOWED = 20  # by one user in one process: each looks into the database for up to a day

_encoder = msgspec.json.Encoder()
_attendance = Attendance(most_of_a_user=MOST_FOLLOWED)


def result_lines(batch: Batch, *, after: int, content_type: str) -> StreamingHttpResponse:
    """Those that there are, one JSON a line."""
    return StreamingHttpResponse(_lines(batch, after), content_type=content_type, headers=sse.HEADERS)


class ResultEvents(StreamingHttpResponse):
    """Those that there are and those that come, one event each, whose id is the index; then how it ended. Who follows
    is looked after as a socket is: at most MOST_FOLLOWED of a user, else ApiError 503; without a good credential, or
    when this process is about to stop, no longer. Make it on the event loop."""

    def __init__(self, batch: Batch, *, after: int, principal: Principal) -> None:
        lost, over = asyncio.Event(), asyncio.Event()
        attendant = Attendant(principal, on_lost=lost.set, on_drain=over.set)
        _attendance.enter(attendant)
        self._leave = weakref.finalize(self, _leave_from_anywhere, asyncio.get_running_loop(), attendant)
        self._leave.atexit = False
        super().__init__(_events(batch, after, lost, over), content_type=sse.CONTENT_TYPE, headers=sse.HEADERS)

    def close(self) -> None:
        """Called off the event loop."""
        self._leave()
        super().close()


def _leave_from_anywhere(loop: asyncio.AbstractEventLoop, attendant: Attendant) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(_attendance.leave, attendant)


async def _lines(batch: Batch, after: int) -> AsyncIterator[bytes]:
    while (piece := await _read(batch, after)).requests:
        yield b"".join(_encoder.encode(wire_result(request)) + b"\n" for request in piece.requests)
        after = piece.requests[-1].index


async def _events(batch: Batch, after: int, lost: asyncio.Event, over: asyncio.Event) -> AsyncIterator[bytes]:
    spoke = time.monotonic()
    while not (lost.is_set() or over.is_set()):
        try:
            piece = await _read(batch, after)
        except Batch.DoesNotExist:  # erased, with its user
            lost.set()
            break
        for request in piece.requests:
            yield b"id: %d\n" % request.index + sse.event(wire_result(request))
            after, spoke = request.index, time.monotonic()
        if piece.is_last:
            yield sse.event(await sync_to_async(_end)(batch))
            return
        if not piece.requests:
            let_thread_go()
            await asyncio.sleep(LOOKS_EVERY_S)
        if time.monotonic() > spoke + KEEP_ALIVE_S:
            spoke = time.monotonic()
            yield sse.KEEP_ALIVE
    if lost.is_set():
        yield sse.event(native_error(Code.AUTHENTICATION_FAILED, NotAuthenticated().problem.message))


async def _read(batch: Batch, after: int) -> Piece:
    return await sync_to_async(_read_and_let_go)(batch, after)


def _read_and_let_go(batch: Batch, after: int) -> Piece:
    try:
        return read_piece(batch, after=after)
    finally:
        if not connection.in_atomic_block:
            connection.close()


def _end(batch: Batch) -> BatchEnd:
    try:
        batch.refresh_from_db()
    finally:
        if not connection.in_atomic_block:
            connection.close()
    return BatchEnd(True, BatchState(batch.status), batch.total, batch.completed, batch.failed)
