"""Request bodies: read within a time, up to a size, and of a known length."""

import asyncio
import tempfile
from typing import IO

from shared.api.errors import ApiError
from shared.serving.asgi_types import Event, Receive

READ_TIMEOUT_S = 60.0
IN_MEMORY_BYTES = 256 * 1024
REPLAY_BYTES = 64 * 1024


def too_large(cap: int) -> ApiError:
    return ApiError(413, f"The request body is larger than {cap} bytes.")


class TimedBody:
    """`receive` with a deadline for the whole body, `times` the usual one. Once it has passed, the client counts as
    gone; `late` says so."""

    def __init__(self, receive: Receive, *, times: float = 1.0) -> None:
        self._receive = receive
        self._deadline = asyncio.get_running_loop().time() + READ_TIMEOUT_S * times
        self._complete = False
        self.late = False

    async def __call__(self) -> Event:
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                event = await self._receive()
        except TimeoutError:
            self.late = True
            return {"type": "http.disconnect"}
        self._complete = not event.get("more_body", False)
        return event


class SpooledBody:
    """A body of undeclared length, read to its end, so that its length is known, and then given out again.

    What Django does with a body of known length (large ones wait on disk), a step earlier: the frameworks behind us
    take a missing Content-Length for an empty body.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 - see close
        self._replayed = False
        self.length = 0

    async def read(self, *, cap: int) -> bool:
        """Read it all; False when the client left first. Raises ApiError 413 as soon as it is larger than the cap."""
        more = True
        while more:
            event = await self._receive()
            if event["type"] != "http.request":
                return False
            self.length += len(event["body"])
            if self.length > cap:
                raise too_large(cap)
            self._file.write(event["body"])
            more = event["more_body"]
        self._file.seek(0)
        return True

    async def __call__(self) -> Event:
        if self._replayed:
            return await self._receive()
        chunk = self._file.read(REPLAY_BYTES)
        self._replayed = self._file.tell() == self.length
        return {"type": "http.request", "body": chunk, "more_body": not self._replayed}

    def close(self) -> None:
        self._file.close()
