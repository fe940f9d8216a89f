"""ASGI middleware that limits concurrent requests to routes that hash passwords.

A refusal by Django costs milliseconds of the only web process. In a flood of sign-ins, this middleware refuses most of
them at a tenth of that cost, and the other routes stay fast.
"""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from shared.accounts.passwords import MAX_HASHING_REQUESTS, on_hashed, too_many_sign_ins_error
from shared.serving.asgi.bodies import SpooledBody
from shared.serving.asgi.types import Application, Receive, Scope, Send

MAX_BODY_BYTES = 64 * 1024


class PasswordConcurrencyMiddleware:
    """ASGI middleware that admits MAX_HASHING_REQUESTS POSTs to these paths at a time, each until it has hashed.

    Of them `passwords` hashes a few at a time. It reads the body before, so that a slow client delays nobody. Raises
    ApiError 413 and 503.
    """

    def __init__(self, application: Application, *, paths: Collection[str]) -> None:
        self._application = application
        self._paths = frozenset(paths)
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in self._paths:
            await self._application(scope, receive, send)
            return
        body = SpooledBody(receive)
        try:
            if await body.read(max_bytes=MAX_BODY_BYTES):
                with self._slot():
                    await self._application(scope, body, send)
        finally:
            body.close()

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if self._running >= MAX_HASHING_REQUESTS:
            raise too_many_sign_ins_error()
        self._running += 1
        with ExitStack() as slot:
            slot.callback(self._leave)
            on_hashed.set(partial(asyncio.get_running_loop().call_soon_threadsafe, slot.close))
            yield

    def _leave(self) -> None:
        self._running -= 1
