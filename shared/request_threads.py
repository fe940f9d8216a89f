"""Database access in the thread of a request: calls from its coroutines, and the chunks of its response.

`shared.serving.db_threads` is for coroutines that belong to no request, or outlive it.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from shared.transactions import close_connection

P = ParamSpec("P")
R = TypeVar("R")


async def run_in_request_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in the request's thread, and close its database connection at once.

    The request may last for minutes, and there are more requests than connections. In tests, which roll back, the
    connection stays open.
    """

    def call() -> R:
        try:
            return function(*args, **kwargs)
        finally:
            close_connection()

    return await sync_to_async(call)()


def response_chunks(request: HttpRequest, chunks: Iterator[R]) -> Iterator[R] | AsyncIterator[R]:
    """Return the chunks of a StreamingHttpResponse in the form that the server of this request sends one by one."""
    return _stream_from_thread(chunks) if isinstance(request, ASGIRequest) else chunks


async def _stream_from_thread(chunks: Iterator[R]) -> AsyncIterator[R]:
    """Yield the chunks of a response, each made in the request's thread.

    Its database connection is closed before a chunk is sent, so the iterator must not keep a cursor open. Under ASGI
    Django would read a synchronous iterator to its end before it sends anything.
    """
    while chunk := await run_in_request_thread(lambda: list(islice(chunks, 1))):
        yield chunk[0]
