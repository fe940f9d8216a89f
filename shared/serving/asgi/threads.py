"""Reuse of threads across requests.

Under ASGI, Django starts a thread for each request's blocking work and ends it afterwards, in yet another thread. That
was a tenth of the cost of a short response.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.db import connections

from shared.serving.asgi.types import Application, Receive, Scope, Send

MAX_IDLE_THREADS = 32


class ThreadReuseMiddleware:
    """ASGI middleware that gives each request one thread to itself, as Django requires, from a pool of idle threads.

    A request that goes on without blocking calls returns it early: see `release_request_thread`.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._idle: deque[ThreadPoolExecutor] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        thread = RequestThread(self._idle)
        token = _current_thread.set(thread)
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self._application(scope, receive, send)
        finally:
            _current_thread.reset(token)
            thread.release()


class RequestThread(Executor):
    """Executor with the one thread of a request: acquired at its first blocking call, and again after a release."""

    def __init__(self, idle: deque[ThreadPoolExecutor]) -> None:
        self._idle = idle
        self._thread: ThreadPoolExecutor | None = None

    @property
    def is_unused(self) -> bool:
        """Whether no thread is acquired, so that the request has no database connection open."""
        return self._thread is None

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        if self._thread is None:
            self._thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        return self._thread.submit(function, *args, **options)

    def release(self) -> None:
        if self._thread:
            # Queued behind what the request left running, so that the next request does not wait for it.
            self._thread.submit(_return_thread, self._thread, self._idle)
            self._thread = None


_current_thread: ContextVar[RequestThread | None] = ContextVar("request_thread", default=None)


def release_request_thread() -> None:
    """Return the current request's thread to the pool, before it streams for minutes without blocking calls.

    Nothing may stay open in that thread, such as a database connection: the next blocking call gets another one.
    """
    if thread := _current_thread.get():
        thread.release()


def is_request_thread_unused() -> bool:
    """Return whether the current request has no thread. False outside of `ThreadReuseMiddleware`."""
    thread = _current_thread.get()
    return thread is not None and thread.is_unused


def _return_thread(thread: ThreadPoolExecutor, idle: deque[ThreadPoolExecutor]) -> None:
    if len(idle) < MAX_IDLE_THREADS:
        idle.append(thread)
    else:
        connections.close_all()  # this thread's, which a collection would close much later
        thread.shutdown(wait=False)
