"""In front of Django: requests that may cost a password's hash come in a few at a time, and few may wait.

A refusal by Django costs milliseconds of the one process that answers everybody. Of a flood of sign-ins most are
refused here, for a tenth of that, and the other routes stay quick.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from shared.accounts.passwords import MAX_CONCURRENT_HASHES, MAX_WAIT_SECONDS, too_many_sign_ins_error
from shared.serving.asgi.bodies import SpooledBody
from shared.serving.asgi.types import Application, Receive, Scope, Send

MAX_WAITING_REQUESTS = 16 * MAX_CONCURRENT_HASHES  # to wait in: what comes on top of these is refused at once
MAX_BODY_BYTES = 64 * 1024


class PasswordConcurrencyMiddleware:
    """ASGI middleware that lets in MAX_CONCURRENT_HASHES POSTs to these paths at a time.

    A body is read before its turn comes, so that a slow sender holds nobody up. Raises ApiError 413 and 503.
    """

    def __init__(self, application: Application, *, paths: Collection[str]) -> None:
        self._application = application
        self._paths = frozenset(paths)
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_HASHES)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in self._paths:
            await self._application(scope, receive, send)
            return
        body = SpooledBody(receive)
        try:
            if await body.read(max_bytes=MAX_BODY_BYTES):
                async with self._turn():
                    await self._application(scope, body, send)
        finally:
            body.close()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._waiting >= MAX_WAITING_REQUESTS:
            raise too_many_sign_ins_error()
        self._waiting += 1
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise too_many_sign_ins_error() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()
