"""Threads of the blocking work of requests."""

import asyncio
import threading
from typing import Any

from asgiref.sync import sync_to_async

from shared.serving.asgi import threads
from shared.serving.asgi.threads import ThreadReuseMiddleware, release_request_thread
from shared.serving.asgi.types import Receive, Scope, Send

HTTP: Scope = {"type": "http"}


class BlockingApplication:
    """Application that answers from the thread it is given; `hold` keeps it busy."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.inside = threading.Semaphore(0)
        self.hold = threading.Event()
        self.hold.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await sync_to_async(self._work, thread_sensitive=True)()

    def _work(self) -> None:
        self.threads.append(threading.current_thread())
        self.inside.release()
        assert self.hold.wait(30)


async def ask(application: Any) -> None:
    await application(HTTP, None, None)


async def test_consecutive_requests_share_a_thread():
    view = BlockingApplication()
    application = ThreadReuseMiddleware(view)
    for _ in range(5):
        await ask(application)
        await asyncio.to_thread(_until, lambda: application._idle)

    assert len(set(view.threads)) == 1
    assert view.threads[0] is not threading.current_thread()


async def test_concurrent_requests_have_separate_threads():
    view = BlockingApplication()
    view.hold.clear()
    application = ThreadReuseMiddleware(view)
    running = [asyncio.create_task(ask(application)) for _ in range(4)]
    for _ in running:
        assert await asyncio.to_thread(view.inside.acquire, timeout=30)
    view.hold.set()
    await asyncio.gather(*running)

    assert len(set(view.threads)) == 4


async def test_the_next_request_does_not_wait_for_work_of_a_cancelled_one():
    view = BlockingApplication()
    view.hold.clear()
    application = ThreadReuseMiddleware(view)
    cut_off = asyncio.create_task(ask(application))
    assert await asyncio.to_thread(view.inside.acquire, timeout=30)
    cut_off.cancel()
    await asyncio.gather(cut_off, return_exceptions=True)

    second = asyncio.create_task(ask(application))
    assert await asyncio.to_thread(view.inside.acquire, timeout=30)
    view.hold.set()
    await second
    assert len(set(view.threads)) == 2


async def test_streams_that_released_their_thread_share_one_for_blocking_work():
    view, over = BlockingApplication(), asyncio.Event()

    async def wait_in_the_middle(scope: Scope, receive: Receive, send: Send) -> None:
        await view(scope, receive, send)
        release_request_thread()
        await over.wait()
        await view(scope, receive, send)

    application = ThreadReuseMiddleware(wait_in_the_middle)
    waiting = []
    for number in range(5):
        waiting.append(asyncio.create_task(ask(application)))
        await asyncio.to_thread(_until, lambda: len(view.threads) > number and application._idle)  # noqa: B023
    assert len(set(view.threads)) == 1
    over.set()
    await asyncio.gather(*waiting)
    assert len(view.threads) == 10


async def test_few_idle_threads_are_kept(monkeypatch: Any):
    monkeypatch.setattr(threads, "MAX_IDLE_THREADS", 2)
    view = BlockingApplication()
    view.hold.clear()
    application = ThreadReuseMiddleware(view)
    running = [asyncio.create_task(ask(application)) for _ in range(5)]
    for _ in running:
        assert await asyncio.to_thread(view.inside.acquire, timeout=30)
    view.hold.set()
    await asyncio.gather(*running)

    await asyncio.to_thread(_until, lambda: sum(thread.is_alive() for thread in view.threads) == 2)
    assert len(application._idle) == 2


def _until(met: Any) -> None:
    for _ in range(3000):
        if met():
            return
        threading.Event().wait(0.01)
    raise AssertionError("It never came to that.")
