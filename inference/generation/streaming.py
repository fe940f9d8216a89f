"""A generation as server-sent events, with keep-alive comments, and cancelled when its client disconnects."""

import asyncio
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from contextvars import Context
from functools import partial
from typing import Any

import structlog
from django.db import Error as DatabaseError
from django.http import StreamingHttpResponse
from django.utils import timezone

from inference.access.operations import OperationCall
from inference.access.resumption import numbered_frame, stored_stream
from inference.engine import FinishReason, GenerationOutput, GenerationStream
from inference.protocol import sse
from inference.streams.recorder import StreamRecorder
from inference.streams.services import StreamLost, open_stream
from inference.streams.shared_commits import commit
from shared.api.idempotency.fingerprints import keyed_fingerprints
from shared.observability import tracing
from shared.serving.asgi.threads import release_request_thread

KEEP_ALIVE_SECONDS = 15.0
FRAME_END = b"\n\n"

logger = structlog.get_logger(__name__)
_recordings: set[asyncio.Task[None]] = set()  # of streams whose clients may be gone


class EventStreamResponse(StreamingHttpResponse):
    """Sends `start`, then the events that `encode` returns for each output, up to the first error.

    keep_alive: what is sent while there are no events.

    The generation is always closed: by the iterator if the client disconnects during the stream, by `close` if it does
    before the first event, and by the garbage collector otherwise.
    """

    def __init__(
        self,
        outputs: GenerationStream,
        encode: Callable[[GenerationOutput], Iterable[bytes]],
        start: bytes = b"",
        *,
        content_type: str = sse.CONTENT_TYPE,
        keep_alive: bytes = sse.KEEP_ALIVE,
    ) -> None:
        self._release = weakref.finalize(self, _close_from_anywhere, asyncio.get_running_loop(), outputs)
        self._release.atexit = False
        events = _events(outputs, encode, start, keep_alive)
        super().__init__(events, content_type=content_type, headers=sse.HEADERS)

    def close(self) -> None:
        """Release the generation. Django calls this outside the event loop."""
        self._release()
        super().close()


async def respond_with_stream(
    call: OperationCall[Any],
    outputs: GenerationStream,
    encode: Callable[[GenerationOutput], Iterable[bytes]],
    start: bytes = b"",
) -> StreamingHttpResponse:
    """Return the events of a generation as a stream, which is stored if the request has an Idempotency-Key.

    A stored stream goes on when its client disconnects.
    """
    if call.stream_key is None:
        return EventStreamResponse(outputs, encode, start)
    owner = uuid.uuid4()
    try:
        stream = await commit(
            partial(
                open_stream,
                user=call.caller.user,
                owner=owner,
                key=call.stream_key.scope,
                fingerprint=keyed_fingerprints(call.stream_key.fingerprint)[0],
                now=timezone.now(),
            )
        )
    except BaseException:
        await outputs.close()
        raise
    recorder = StreamRecorder(stream.pk, owner)
    # In an empty context: the recording belongs to no request.
    task = asyncio.create_task(_record(recorder, outputs, encode, start), context=Context())
    _recordings.add(task)
    task.add_done_callback(_recordings.discard)
    return stored_stream(call.request, call.caller, stream.pk, after=-1)


async def _record(
    recorder: StreamRecorder,
    outputs: GenerationStream,
    encode: Callable[[GenerationOutput], Iterable[bytes]],
    start: bytes,
) -> None:
    """Write the events of a generation with their numbers, to its end."""
    try:
        async with outputs:
            recorder.follow(outputs)
            _append(recorder, [start])
            async for output in outputs:
                _append(recorder, encode(output))
                if output.finish_reason is FinishReason.ERROR or recorder.is_lost:
                    break
        await recorder.finish(_no_event)
    except StreamLost:
        await recorder.abandon()
    except DatabaseError as error:  # the lease expires, and readers end with an error
        logger.warning("stream_not_ended", reason=type(error).__name__)
        await recorder.abandon()
    except BaseException:  # otherwise its lease would be renewed as long as the process lives
        await recorder.abandon()
        raise


def _append(recorder: StreamRecorder, events: Iterable[bytes]) -> None:
    for event in events:
        for frame in event.split(FRAME_END)[:-1]:
            recorder.append(numbered_frame(frame + FRAME_END, recorder.next_index))


def _no_event(number: int) -> None:
    """End the stream without another event."""


async def _events(
    outputs: GenerationStream, encode: Callable[[GenerationOutput], Iterable[bytes]], start: bytes, keep_alive: bytes
) -> AsyncIterator[bytes]:
    span = tracing.start_span("stream")
    release_request_thread()  # that the middleware held for the response
    clock = asyncio.get_running_loop().time
    try:
        if start:
            yield start
        sent_at = clock()
        while True:
            try:
                async with asyncio.timeout_at(sent_at + KEEP_ALIVE_SECONDS):
                    output = await anext(outputs)
            except TimeoutError:
                yield keep_alive
                sent_at = clock()
                continue
            except StopAsyncIteration:
                return
            if events := b"".join(encode(output)):  # a held-back token has no events
                yield events
                sent_at = clock()
            if output.finish_reason is FinishReason.ERROR:
                return
    finally:
        tracing.end_span(span)
        await outputs.close()


def _close_from_anywhere(loop: asyncio.AbstractEventLoop, outputs: GenerationStream) -> None:
    """Close the stream from any thread, on its own event loop. A closed loop has closed its streams."""
    if not loop.is_closed():
        asyncio.run_coroutine_threadsafe(outputs.close(), loop)
