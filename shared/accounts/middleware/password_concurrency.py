"""ASGI middleware that limits concurrent requests to routes that hash passwords.

A refusal by Django costs milliseconds of the only web process. In a flood of sign-ins, this middleware refuses most of
them at a tenth of that cost, and the other routes stay fast.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from shared.accounts.passwords import MAX_HASHING_REQUESTS, on_hashed, too_many_sign_ins_error
from shared.serving.asgi.bodies import SpooledBody
from shared.serving.asgi.refusals import client_of
from shared.serving.asgi.types import Application, Receive, Scope, Send

MAX_BODY_BYTES = 64 * 1024
MAX_OF_CLIENT = MAX_HASHING_REQUESTS // 2  # at once, of those from one address or of one user


class PasswordConcurrencyMiddleware:
    """ASGI middleware that admits MAX_HASHING_REQUESTS POSTs to these paths at a time, each until it has hashed.

    Of them `passwords` hashes a few at a time. It reads the body before, so that a slow client delays nobody. Raises
    ApiError 413 and 503.
    """

    def __init__(self, application: Application, *, paths: Collection[str]) -> None:
        self._application = application
        self._paths = frozenset(paths)
        self._running: Counter[str] = Counter()  # by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in self._paths:
            await self._application(scope, receive, send)
            return
        body = SpooledBody(receive)
        try:
            if await body.read(max_bytes=MAX_BODY_BYTES):
                with self._slot(client_of(scope)):
                    await self._application(scope, body, send)
        finally:
            body.close()

    @contextmanager
    def _slot(self, client: str) -> Iterator[None]:
        if self._running.total() >= MAX_HASHING_REQUESTS or self._running[client] >= MAX_OF_CLIENT:
            raise too_many_sign_ins_error()
        self._running[client] += 1
        with ExitStack() as slot:
            slot.callback(self._leave, client)
            on_hashed.set(partial(asyncio.get_running_loop().call_soon_threadsafe, slot.close))
            yield

    def _leave(self, client: str) -> None:
        self._running -= Counter({client: 1})  # which keeps no zeros
