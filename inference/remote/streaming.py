"""Reading the bodies of responses: a streamed generation within its time limits, or a complete body."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import httpx2
import msgspec

from inference.engine import DeadlineExceeded, EngineDied, FinishReason, GenerationStream, StepOutput, Usage
from inference.remote.configuration import RemoteModel
from inference.remote.errors import CONNECTION_ERRORS
from inference.remote.responses import InvalidResponse, ResponseParser
from inference.remote.sse import LineTooLong, parse_events

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_TIMEOUT_CODE = "TIMEOUT"

Deadline = float | None  # monotonic seconds


async def push_outputs(
    stream: GenerationStream,
    parser: ResponseParser,
    response: httpx2.Response,
    model: RemoteModel,
    deadline: Deadline,
    *,
    is_streamed: bool,
) -> None:
    """Push a response's outputs to a stream until it ends, fails or times out, and then close the response.

    A comment, which keeps the connection alive, does not extend the time limit.
    """
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
                        until = next_until
            for output in parser.finish():
                stream.push(output)
        except TimeoutError:
            stream.push(_timeout_output(model))
        except InvalidResponse as error:
            stream.fail(f"The server of {model.id} {error}.")
        except CONNECTION_ERRORS:
            stream.fail(f"The connection to the server of {model.id} was lost; try again.", EngineDied.__name__)
        except LineTooLong:
            stream.fail(f"The server of {model.id} sent a line that is too long.")


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


def timeout_error(model: RemoteModel) -> DeadlineExceeded:
    return DeadlineExceeded(f"The server of {model.id} took too long; try again, or request less.")


def _timeout_output(model: RemoteModel) -> StepOutput:
    message = timeout_error(model).message
    output = StepOutput(0, 0, "", finish_reason=FinishReason.ERROR, usage=Usage(0, 0), error=message)
    return msgspec.structs.replace(output, error_code=_TIMEOUT_CODE)


async def _read_events(response: httpx2.Response) -> AsyncIterator[bytes | None]:
    async for event in parse_events(response.aiter_raw()):
        yield event


async def _read_whole(response: httpx2.Response) -> AsyncIterator[bytes | None]:
    yield await read_body(response)
