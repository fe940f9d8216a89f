"""Reuse of threads across requests, and the turns of the clients at them.

Under ASGI, Django starts a thread for each request's blocking work and ends it afterwards, in yet another thread. That
was a tenth of the cost of a short response.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, cast

from asgiref.sync import ThreadSensitiveContext
from django.core.exceptions import RequestAborted
from django.db import close_old_connections, connections

from shared.serving.asgi.calls import Call
from shared.serving.asgi.refusals import CLIENT_KEY, client_address_key
from shared.serving.asgi.turns import client_turns
from shared.serving.asgi.types import Application, Receive, Scope, Send

MAX_IDLE_THREADS = 32

P = ParamSpec("P")
R = TypeVar("R")


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
        thread = RequestThread(self._idle, scope.get(CLIENT_KEY), client_address_key(scope))
        token = _current_thread.set(thread)
        try:
            async with ThreadSensitiveContext(executor=thread):
                await metered(self._application(scope, receive, send))
        finally:
            _current_thread.reset(token)
            thread.close()
            if thread.has_taken_turns and thread.client:
                client_turns.charge(thread.client, thread.loop_seconds)


async def metered(awaitable: Awaitable[R]) -> R:
    """Return its result, and count what the event loop computes for it, but in tasks of its own, for the request."""
    thread, measured = _current_thread.get(), _Measured(awaitable)
    try:
        return await measured
    finally:
        if thread:
            thread.loop_seconds += measured.computed_seconds


class _Measured(Generic[R]):
    """An awaitable that measures what the event loop computes in its task."""

    def __init__(self, awaitable: Awaitable[R]) -> None:
        self._awaitable = awaitable
        self.computed_seconds = 0.0

    def __await__(self) -> Generator[Any, Any, R]:
        steps = self._awaitable.__await__()
        step: Callable[[], Any] = steps.__next__
        while True:
            began = time.thread_time()
            try:
                waited_for = step()
            except StopIteration as end:
                return cast(R, end.value)
            finally:
                self.computed_seconds += time.thread_time() - began
            try:
                yield waited_for
                step = steps.__next__
            except BaseException as error:
                step = partial(steps.throw, error)


class RequestThread(Executor):
    """Executor with the one thread of a request: acquired at its first blocking call, and again after a release.

    The calls of a client take turns with those of others. `client` None is not limited, as probes.
    """

    def __init__(self, idle: deque[ThreadPoolExecutor], client: str | None, address: str) -> None:
        self._idle = idle
        self.client = client
        self.address = address
        self.has_taken_turns = False
        self.loop_seconds = 0.0  # that the event loop has computed for it
        self._thread: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._receive: Receive | None = None
        self._watching: asyncio.Task[None] | None = None

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        call = partial(function, *args, **options)
        if self.client is None:
            return self._acquire().submit(call)
        self.has_taken_turns = True
        future: Future[Any] = Future()
        start = partial(self._start, self.client, future, call)
        client_turns.enter(self.client, start, is_over=future.done, address=self.address)
        if not future.running() and not future.done():
            if self._thread:  # whose turn it is may wait for a connection of the pool
                self._thread.submit(close_old_connections)
            if self._receive:
                self._watching = asyncio.ensure_future(self._end_when_client_leaves(future, self._receive))
        return future

    @contextmanager
    def ending_when_client_leaves(self, receive: Receive) -> Iterator[None]:
        self._receive = receive
        try:
            yield
        finally:
            self._receive = None
            self._end_watching()

    async def close_connections(self) -> None:
        if self._thread:
            await asyncio.wrap_future(self._thread.submit(close_old_connections))

    def release(self) -> None:
        if self._thread:
            # Queued behind what the request left running, so that the next request does not wait for it.
            self._thread.submit(_return_thread, self._thread, self._idle)
            self._thread = None

    def close(self) -> None:
        """Release the thread, also of a call whose turn comes later."""
        self._is_closed = True
        self._end_watching()
        self.release()

    def _start(self, client: str, future: Future[Any], function: Callable[[], Any], call: Call) -> None:
        loop = asyncio.get_running_loop()
        leave = partial(loop.call_soon_threadsafe, client_turns.leave, client, call)
        self._end_watching()
        if future.done() or not future.set_running_or_notify_cancel():  # the request ended while it waited
            leave()
            return
        try:
            self._acquire().submit(_run, future, function, call, leave)
        except RuntimeError as error:  # the process can start no thread
            self._thread = None  # that would run the call later
            future.set_exception(error)
            leave()
        if self._is_closed:
            self.release()

    async def _end_when_client_leaves(self, future: Future[Any], receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if future.set_running_or_notify_cancel():
            future.set_exception(RequestAborted())

    def _end_watching(self) -> None:
        if self._watching:
            self._watching.cancel()
            self._watching = None

    def _acquire(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        return self._thread


def _run(future: Future[Any], function: Callable[[], Any], call: Call, leave: Callable[[], object]) -> None:
    try:
        future.set_result(call.run(function))
    except BaseException as error:
        future.set_exception(error)
    finally:
        leave()


_current_thread: ContextVar[RequestThread | None] = ContextVar("request_thread", default=None)


async def run_in_turn(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in another thread when it is the turn of the current request's client.

    The function uses no database.
    """
    thread = _current_thread.get()
    if thread is None or thread.client is None:
        return await asyncio.to_thread(function, *args, **kwargs)
    call = partial(function, *args, **kwargs)
    return await client_turns.run(thread.client, call, address=thread.address)


def release_request_thread() -> None:
    """Return the current request's thread to the pool, before it streams for minutes without blocking calls.

    Nothing may stay open in that thread, such as a database connection: the next blocking call gets another one.
    """
    if thread := _current_thread.get():
        thread.release()


async def close_request_thread() -> bool:
    """Close the database connections of the current request's thread at once, not in its client's turn, and release it.

    Return False outside of `ThreadReuseMiddleware`.
    """
    if thread := _current_thread.get():
        await thread.close_connections()
        thread.release()
    return thread is not None


def ending_when_client_leaves(receive: Receive) -> AbstractContextManager[None]:
    """End a call that waits for its turn with RequestAborted when the client of the current request leaves.

    `receive` has returned the whole body.
    """
    thread = _current_thread.get()
    return thread.ending_when_client_leaves(receive) if thread else nullcontext()


def _return_thread(thread: ThreadPoolExecutor, idle: deque[ThreadPoolExecutor]) -> None:
    if len(idle) < MAX_IDLE_THREADS:
        idle.append(thread)
    else:
        connections.close_all()  # this thread's, which a collection would close much later
        thread.shutdown(wait=False)
