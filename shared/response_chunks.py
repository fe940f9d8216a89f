"""Bodies of streaming responses that a synchronous iterator makes."""

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TypeVar

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from shared.serving.db_threads import run_in_request_thread

R = TypeVar("R")


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
