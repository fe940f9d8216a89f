"""Threads that outlive a request. Under ASGI Django starts a thread for each request's blocking work and ends it after,
which asgiref does in yet another one: a tenth of what a short answer costs.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import ThreadSensitiveContext

from shared.serving.asgi_types import Application, Receive, Scope, Send

MOST_IDLE = 32


class KeptThreads:
    """`KeptThreads(application)`: the application, each of whose requests has one thread to itself, as Django asks for,
    that has served others before."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._idle: deque[ThreadPoolExecutor] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self._application(scope, receive, send)
        finally:
            # After what the request may have left running there: the next one is not to wait for it.
            thread.submit(self._give_back, thread)

    def _give_back(self, thread: ThreadPoolExecutor) -> None:
        if len(self._idle) < MOST_IDLE:
            self._idle.append(thread)
        else:
            thread.shutdown(wait=False)
