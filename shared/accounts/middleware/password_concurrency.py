"""ASGI middleware that limits concurrent requests to routes that hash passwords.

A refusal by Django costs milliseconds of the only web process. In a flood of sign-ins, this middleware refuses most of
them at a tenth of that cost, and the other routes stay fast.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import ExitStack, asynccontextmanager
from functools import partial

from shared.accounts.passwords import MAX_CONCURRENT_HASHES, MAX_WAIT_SECONDS, on_hashed, too_many_sign_ins_error
from shared.serving.asgi.bodies import SpooledBody
from shared.serving.asgi.types import Application, Receive, Scope, Send

MAX_WAITING_REQUESTS = 16 * MAX_CONCURRENT_HASHES  # further requests are refused at once
MAX_BODY_BYTES = 64 * 1024


class PasswordConcurrencyMiddleware:
    """ASGI middleware that admits MAX_CONCURRENT_HASHES POSTs to these paths at a time, each until it has hashed.

    It reads the body before, so that a slow client delays nobody. Raises ApiError 413 and 503.
    """

    def __init__(self, application: Application, *, paths: Collection[str]) -> None:
        self._application = application
        self._paths = frozenset(paths)
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_HASHES)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in self._paths:
            await self._application(scope, receive, send)
            return
        body = SpooledBody(receive)
        try:
            if await body.read(max_bytes=MAX_BODY_BYTES):
                async with self._slot():
                    await self._application(scope, body, send)
        finally:
            body.close()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        if self._waiting >= MAX_WAITING_REQUESTS:
            raise too_many_sign_ins_error()
        self._waiting += 1
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await self._semaphore.acquire()
        except TimeoutError:
            raise too_many_sign_ins_error() from None
        finally:
            self._waiting -= 1
        with ExitStack() as slot:
            slot.callback(self._semaphore.release)
            on_hashed.set(partial(asyncio.get_running_loop().call_soon_threadsafe, slot.close))
            yield
