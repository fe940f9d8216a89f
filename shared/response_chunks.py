"""Bodies of streaming responses that a synchronous iterator makes."""

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import HttpRequest

R = TypeVar("R")


def response_chunks(request: HttpRequest, chunks: Iterator[R]) -> Iterator[R] | AsyncIterator[R]:
    """Return the chunks of a StreamingHttpResponse in the form that the server of this request sends one by one."""
    return _stream_from_thread(chunks) if isinstance(request, ASGIRequest) else chunks


async def _stream_from_thread(chunks: Iterator[R]) -> AsyncIterator[R]:
    """Yield the chunks of a response, each made in the request's thread.

    Its database connection is closed before a chunk is sent, so the iterator must not keep a cursor open. Under ASGI
    Django would read a synchronous iterator to its end before it sends anything.
    """

    def read() -> list[R]:
        try:
            return list(islice(chunks, 1))
        finally:
            if not connection.in_atomic_block:  # in tests, which roll back
                connection.close()

    while chunk := await sync_to_async(read)():
        yield chunk[0]
