"""In front of Django: requests that may cost a password's hash come in a few at a time, and few may wait.

A refusal by Django costs milliseconds of the one process that answers everybody. Of a flood of sign-ins most are
refused here, for a tenth of that, and the other routes stay quick.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from shared.accounts.passwords import CORES, LONGEST_WAIT_S, too_many
from shared.serving.asgi_types import Application, Receive, Scope, Send
from shared.serving.bodies import SpooledBody

PLACES = 16 * CORES  # to wait in: what comes on top of these is refused at once
LARGEST_BODY_BYTES = 64 * 1024


class PasswordGate:
    """`PasswordGate(application, paths=...)`: the application, with POSTs to these paths let in `CORES` at a time.

    A body is read before its turn comes, so that a slow sender holds nobody up. Raises ApiError 413 and 503.
    """

    def __init__(self, application: Application, *, paths: Collection[str]) -> None:
        self._application = application
        self._paths = frozenset(paths)
        self._turns = asyncio.Semaphore(CORES)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in self._paths:
            await self._application(scope, receive, send)
            return
        body = SpooledBody(receive)
        try:
            if await body.read(cap=LARGEST_BODY_BYTES):
                async with self._turn():
                    await self._application(scope, body, send)
        finally:
            body.close()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._waiting >= PLACES:
            raise too_many()
        self._waiting += 1
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                await self._turns.acquire()
        except TimeoutError:
            raise too_many() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()
