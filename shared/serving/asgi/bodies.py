"""Request bodies: read within a deadline, up to a size limit, and with a known length."""

import asyncio
import tempfile
from typing import IO

from shared.api.errors import ApiError
from shared.serving.asgi.types import Event, Receive

READ_TIMEOUT_SECONDS = 60.0
MAX_MEMORY_BYTES = 256 * 1024
CHUNK_BYTES = 64 * 1024


def body_too_large_error(max_bytes: int) -> ApiError:
    return ApiError(413, f"The request body is larger than {max_bytes} bytes.")


class DeadlineBody:
    """A `receive` callable with a deadline for the whole body: READ_TIMEOUT_SECONDS times `factor`.

    After the deadline it reports a disconnect, and `has_timed_out` is true.
    """

    def __init__(self, receive: Receive, *, factor: float = 1.0) -> None:
        self._receive = receive
        self._deadline = asyncio.get_running_loop().time() + READ_TIMEOUT_SECONDS * factor
        self._is_complete = False
        self.has_timed_out = False

    async def __call__(self) -> Event:
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                event = await self._receive()
        except TimeoutError:
            self.has_timed_out = True
            return {"type": "http.disconnect"}
        self._is_complete = not event.get("more_body", False)
        return event


class SpooledBody:
    """A chunked body that is read to its end first, so that its length is known, and then replayed.

    Django and DRF take a missing Content-Length for an empty body. Large bodies wait on disk, as in Django itself.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=MAX_MEMORY_BYTES)  # noqa: SIM115 - see close
        self._is_replayed = False
        self.length = 0

    async def read(self, *, max_bytes: int) -> bool:
        """Read the whole body; return False if the client left. Raise ApiError 413 as soon as it exceeds the limit."""
        more = True
        while more:
            event = await self._receive()
            if event["type"] != "http.request":
                return False
            self.length += len(event["body"])
            if self.length > max_bytes:
                raise body_too_large_error(max_bytes)
            self._file.write(event["body"])
            more = event["more_body"]
        self._file.seek(0)
        return True

    async def __call__(self) -> Event:
        if self._is_replayed:
            return await self._receive()
        chunk = self._file.read(CHUNK_BYTES)
        self._is_replayed = self._file.tell() == self.length
        return {"type": "http.request", "body": chunk, "more_body": not self._is_replayed}

    def close(self) -> None:
        self._file.close()
