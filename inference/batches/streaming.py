"""Results as a stream, read from the database in pieces: who reads slowly holds neither memory nor a connection."""

import asyncio
import time
from collections.abc import AsyncIterator

import msgspec
from asgiref.sync import sync_to_async
from django.db import connection
from django.http import StreamingHttpResponse

from inference.batches.models import Batch
from inference.batches.results import Piece, read_piece, wire_result
from inference.protocol import sse
from inference.protocol.batch import BatchEnd, BatchState
from shared.serving.kept_threads import let_thread_go

LOOKS_EVERY_S = 0.5
KEEP_ALIVE_S = 15.0

_encoder = msgspec.json.Encoder()


def result_lines(batch: Batch, *, after: int, content_type: str) -> StreamingHttpResponse:
    """Those that there are, one JSON a line."""
    return StreamingHttpResponse(_lines(batch, after), content_type=content_type, headers=sse.HEADERS)


def result_events(batch: Batch, *, after: int) -> StreamingHttpResponse:
    """Those that there are and those that come, one event each, whose id is the index; then how it ended."""
    return StreamingHttpResponse(_events(batch, after), content_type=sse.CONTENT_TYPE, headers=sse.HEADERS)


async def _lines(batch: Batch, after: int) -> AsyncIterator[bytes]:
    while (piece := await _read(batch, after)).requests:
        yield b"".join(_encoder.encode(wire_result(request)) + b"\n" for request in piece.requests)
        after = piece.requests[-1].index


async def _events(batch: Batch, after: int) -> AsyncIterator[bytes]:
    spoke = time.monotonic()
    while True:
        piece = await _read(batch, after)
        for request in piece.requests:
            yield b"id: %d\n" % request.index + sse.event(wire_result(request))
            after, spoke = request.index, time.monotonic()
        if piece.is_last:
            break
        if not piece.requests:
            let_thread_go()
            await asyncio.sleep(LOOKS_EVERY_S)
        if time.monotonic() > spoke + KEEP_ALIVE_S:
            spoke = time.monotonic()
            yield sse.KEEP_ALIVE
    yield sse.event(await sync_to_async(_end)(batch))


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
