"""Reading the bodies of responses: a streamed generation within its time limits, or a complete body."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import httpx2

from inference.engine import DeadlineExceeded, EngineDied, GenerationStream
from inference.remote.configuration import RemoteModel
from inference.remote.errors import CONNECTION_ERRORS
from inference.remote.responses import InvalidResponse, ResponseParser, UnknownForm
from inference.remote.sse import LineTooLong, parse_events

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_TIMEOUT_CODE = "TIMEOUT"

Deadline = float | None  # monotonic seconds


class StreamFailure(Exception):
    """A response that ended before its generation did. code: the engine's code of the error, if it has one.

    was_begun: the stream has outputs of it already. is_malformed: it is not in OpenAI's form. is_timeout: the server
    took too long. is_hang: it has sent no output within the time limit of its model.
    """

    def __init__(
        self,
        message: str,
        code: str | None = None,
        *,
        was_begun: bool,
        is_malformed: bool = False,
        is_hang: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.was_begun = was_begun
        self.is_malformed = is_malformed
        self.is_hang = is_hang

    @property
    def is_timeout(self) -> bool:
        return self.code == _TIMEOUT_CODE


async def push_outputs(
    stream: GenerationStream,
    parser: ResponseParser,
    response: httpx2.Response,
    model: RemoteModel,
    deadline: Deadline,
    *,
    is_streamed: bool,
) -> None:
    """Push a response's outputs to a stream until it ends, and then close the response. Raise StreamFailure.

    A comment, which keeps the connection alive, does not extend the time limit.
    """
    is_begun = False
    chunks = _read_events(response) if is_streamed else _read_whole(response)
    until = time.monotonic() + model.first_token_timeout
    async with contextlib.aclosing(response):
        try:
            while True:
                async with asyncio.timeout(remaining_seconds(max(0.0, until - time.monotonic()), deadline)):
                    data = await anext(chunks, b"")
                if data == b"":
                    break
                if data is not None:
                    next_until = time.monotonic() + model.token_timeout
                    until = max(until, next_until)  # a chunk without a token, as one of the role, shortens no wait
                    for output in parser.feed(data):
                        stream.push(output)
                        is_begun, until = True, next_until
            for output in parser.finish():
                stream.push(output)
        except TimeoutError:
            message, is_hang = timeout_error(model).message, not is_begun and not is_past(deadline)
            raise StreamFailure(message, _TIMEOUT_CODE, was_begun=is_begun, is_hang=is_hang) from None
        except InvalidResponse as error:
            message, is_malformed = f"The server of {model.id} {error}.", isinstance(error, UnknownForm)
            raise StreamFailure(message, was_begun=is_begun, is_malformed=is_malformed) from error
        except CONNECTION_ERRORS as error:
            message = f"The connection to the server of {model.id} was lost; try again."
            raise StreamFailure(message, EngineDied.__name__, was_begun=is_begun) from error
        except LineTooLong as error:
            message = f"The server of {model.id} sent a line that is too long."
            raise StreamFailure(message, was_begun=is_begun, is_malformed=True) from error


async def read_body(response: httpx2.Response, max_bytes: int = MAX_RESPONSE_BYTES) -> bytes:
    """Return the complete body, or raise InvalidResponse if it is larger."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > max_bytes:
            raise InvalidResponse("sent a response that is too large")
    return bytes(body)


def remaining_seconds(seconds: float, deadline: Deadline) -> float:
    """Return the lesser of a time limit and the time until the deadline."""
    return seconds if deadline is None else min(seconds, max(0.0, deadline - time.monotonic()))


def is_past(deadline: Deadline) -> bool:
    """Return whether a request has a deadline that is over: its client then gave the server too little time."""
    return deadline is not None and time.monotonic() >= deadline


def timeout_error(model: RemoteModel) -> DeadlineExceeded:
    return DeadlineExceeded(f"The server of {model.id} took too long; try again, or request less.")


async def _read_events(response: httpx2.Response) -> AsyncIterator[bytes | None]:
    async for event in parse_events(response.aiter_raw()):
        yield event


async def _read_whole(response: httpx2.Response) -> AsyncIterator[bytes | None]:
    yield await read_body(response)
