"""A description as server-sent events: `{"text": ...}` for each piece, then `{"done": true, "description": ...}`.

What fails in mid stream is one `{"error": {message, code, request_id}}`, and the end.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import structlog

from commerce.descriptions.plain_text import plain_text
from shared.api.errors import ApiError, Problem
from shared.observability.request_id import current_request_id

STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

log = structlog.get_logger(__name__)

Finish = Callable[[str], Awaitable[dict[str, Any]]]


class DescriptionEvents:
    """The body of a streamed answer. `start` first: what fails before the first piece is raised there and can still be
    a status. Django calls `close` from another thread once the client has everything or has left."""

    def __init__(self, pieces: AsyncGenerator[str, None], finish: Finish) -> None:
        self._pieces = pieces
        self._finish = finish
        self._first = ""
        self._loop = asyncio.get_running_loop()
        self._request_id = current_request_id()  # by the time of the last event nobody may have it bound any more
        self._ended = False

    async def start(self) -> None:
        """Waits for the first piece. Raises what the writing raises."""
        self._first = await anext(self._pieces)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        text = [self._first]
        try:
            yield _event({"text": self._first})
            async for piece in self._pieces:
                text.append(piece)
                yield _event({"text": piece})
            yield _event({"done": True} | await self._finish(plain_text("".join(text))))
        except ApiError as error:
            yield self._error(error.problem)
        except Exception as error:  # nothing else would tell the client that this is not the end of the text
            log.error("description_stream_failed", exc_info=error, request_id=self._request_id)
            yield self._error(Problem.of_status(500))
        finally:
            self._ended = True
            await self._pieces.aclose()

    def _error(self, problem: Problem) -> bytes:
        return _event({"error": {"message": problem.message, "code": problem.code, "request_id": self._request_id}})

    def close(self) -> None:
        """Ends the writing if it still goes on."""
        if not self._ended and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._pieces.aclose(), self._loop)


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
