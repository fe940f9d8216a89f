"""A generation as server-sent events: kept alive while it is silent, cancelled when its client leaves."""

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
    """Sends `start`, then the events that `form` makes of each output, up to the first error.

    The generation is closed however this ends: by the iterator when the client leaves in mid stream, by `close` when
    it left before the first event, by the collector when not even that is called.
    """

    def __init__(
        self, outputs: GenerationStream, form: Callable[[GenerationOutput], Iterable[bytes]], start: bytes = b""
    ) -> None:
        self._release = weakref.finalize(self, _close_from_anywhere, asyncio.get_running_loop(), outputs)
        self._release.atexit = False
        super().__init__(_events(outputs, form, start), content_type=sse.CONTENT_TYPE, headers=sse.HEADERS)

    def close(self) -> None:
        """Called off the event loop."""
        self._release()
        super().close()


async def _events(
    outputs: GenerationStream, form: Callable[[GenerationOutput], Iterable[bytes]], start: bytes
) -> AsyncIterator[bytes]:
    span = tracing.start_span("stream")
    release_request_thread()  # the one that the middleware had for the response
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
            if events := b"".join(form(output)):  # a token that is held back may have none
                yield events
                sent_at = clock()
            if output.finish_reason is FinishReason.ERROR:
                return
    finally:
        tracing.end_span(span)
        await outputs.close()


def _close_from_anywhere(loop: asyncio.AbstractEventLoop, outputs: GenerationStream) -> None:
    """Closing belongs on the stream's own loop; a loop that is closed has closed its streams."""
    if not loop.is_closed():
        asyncio.run_coroutine_threadsafe(outputs.close(), loop)
