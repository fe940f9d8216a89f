"""Threads that outlive a request. Under ASGI Django starts a thread for each request's blocking work and ends it after,
which asgiref does in yet another one: a tenth of what a short answer costs.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from asgiref.sync import ThreadSensitiveContext

from shared.serving.asgi_types import Application, Receive, Scope, Send

MOST_IDLE = 32


class KeptThreads:
    """`KeptThreads(application)`: the application, each of whose requests has one thread to itself, as Django asks for,
    that has served others before. A request that is about to wait may let it go: see `let_thread_go`."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._idle: deque[ThreadPoolExecutor] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        thread = LentThread(self._idle)
        before = _of_this_request.set(thread)
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self._application(scope, receive, send)
        finally:
            _of_this_request.reset(before)
            thread.let_go()


class LentThread(Executor):
    """One request's thread, from its first blocking call until it lets it go, and again from the next one on."""

    def __init__(self, idle: deque[ThreadPoolExecutor]) -> None:
        self._idle = idle
        self._thread: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        if self._thread is None:
            self._thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        return self._thread.submit(work, *args, **options)

    def let_go(self) -> None:
        if self._thread:
            # After what the request may have left running there: the next one is not to wait for it.
            self._thread.submit(_give_back, self._thread, self._idle)
            self._thread = None


_of_this_request: ContextVar[LentThread | None] = ContextVar("thread_of_this_request", default=None)


def let_thread_go() -> None:
    """For a request that goes on without blocking, maybe for minutes. Nothing of it may be left open in that thread, as
    a connection to the database: its next blocking call has another one."""
    if thread := _of_this_request.get():
        thread.let_go()


def _give_back(thread: ThreadPoolExecutor, idle: deque[ThreadPoolExecutor]) -> None:
    if len(idle) < MOST_IDLE:
        idle.append(thread)
    else:
        thread.shutdown(wait=False)
