"""A generation as server-sent events, with keep-alive comments, and cancelled when its client disconnects."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable

from django.http import StreamingHttpResponse

from inference.engine import FinishReason, GenerationOutput, GenerationStream
from inference.protocol import sse
from shared.observability import tracing
from shared.serving.asgi.threads import release_request_thread

KEEP_ALIVE_SECONDS = 15.0


class EventStreamResponse(StreamingHttpResponse):
    """Sends `start`, then the events that `encode` returns for each output, up to the first error.

    The generation is always closed: by the iterator if the client disconnects during the stream, by `close` if it does
    before the first event, and by the garbage collector otherwise.
    """

    def __init__(
        self, outputs: GenerationStream, encode: Callable[[GenerationOutput], Iterable[bytes]], start: bytes = b""
    ) -> None:
        self._release = weakref.finalize(self, _close_from_anywhere, asyncio.get_running_loop(), outputs)
        self._release.atexit = False
        super().__init__(_events(outputs, encode, start), content_type=sse.CONTENT_TYPE, headers=sse.HEADERS)

    def close(self) -> None:
        """Release the generation. Django calls this outside the event loop."""
        self._release()
        super().close()


async def _events(
    outputs: GenerationStream, encode: Callable[[GenerationOutput], Iterable[bytes]], start: bytes
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
                yield sse.KEEP_ALIVE
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
