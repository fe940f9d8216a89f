"""Server-sent events of a description: `{"text": ...}` per piece, then `{"done": true, "description": ...}`.

An error after the first piece is sent as one `{"error": {message, code, request_id}}` event, which ends the stream.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import structlog

from commerce.descriptions.text.plain_text import plain_text
from shared.api.errors import ApiError, Problem
from shared.observability.request_id import current_request_id

STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

log = structlog.get_logger(__name__)

_SENTENCE_END = re.compile(r"(?<=[.!?…。\uff01\uff1f])(?=\s)")
Finish = Callable[[str], Awaitable[dict[str, Any]]]


class DescriptionEvents:
    """The body of a streaming response.

    `start` must be awaited first: an error before the first piece is raised there and can become an HTTP status. Django
    calls `close` from another thread when the response is complete or the client has disconnected.
    """

    def __init__(self, pieces: AsyncGenerator[str, None], finish: Finish) -> None:
        self._pieces = pieces
        self._finish = finish
        self._first_piece = ""
        self._loop = asyncio.get_running_loop()
        self._request_id = current_request_id()  # no longer bound when the last event is sent
        self._has_ended = False

    async def start(self) -> None:
        """Wait for the first piece. Raise the errors of the generator."""
        self._first_piece = await anext(self._pieces)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        text = [self._first_piece]
        try:
            yield _encode_event({"text": self._first_piece})
            async for piece in self._pieces:
                text.append(piece)
                yield _encode_event({"text": piece})
            yield _encode_event({"done": True} | await self._finish(plain_text("".join(text))))
        except ApiError as error:
            yield self._error_event(error.problem)
        except Exception as error:  # without this event the client would take the text for complete
            log.error("description_stream_failed", exc_info=error, request_id=self._request_id)
            yield self._error_event(Problem.from_status(500))
        finally:
            self._has_ended = True
            await self._pieces.aclose()

    def _error_event(self, problem: Problem) -> bytes:
        error = {"message": problem.message, "code": problem.code, "request_id": self._request_id}
        return _encode_event({"error": error})

    def close(self) -> None:
        """Stop the generator if it still runs."""
        if not self._has_ended and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._pieces.aclose(), self._loop)


async def sentence_events(text: str, body: dict[str, Any]) -> AsyncIterator[bytes]:
    """Yield the events of a text that is complete: one per sentence, and the fields of the response at the end."""
    for sentence in _SENTENCE_END.split(text):
        yield _encode_event({"text": sentence})
    yield _encode_event({"done": True} | body)


def _encode_event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
