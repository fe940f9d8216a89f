"""RemoteClient: asks the models of other servers, as EngineClient asks those of this machine."""

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import msgspec
import structlog

from inference.engine import (
    DeadlineExceeded,
    EmbeddingRequest,
    EmbeddingResult,
    FinishReason,
    GenerationRequest,
    GenerationStream,
    InferenceFailed,
    InvalidRequest,
    StepOutput,
    Usage,
)
from inference.remote import requests
from inference.remote.answers import BrokenAnswer, EmbeddingsAnswer, Reading
from inference.remote.configuration import RemoteModel
from inference.remote.errors import RemoteUnavailable, error_from_answer, reason_of_refusal
from inference.remote.health import Health, Listing, read_listing
from inference.remote.requests import Asked
from inference.remote.sse import LineTooLong, events
from shared.observability import tracing

CHECK_WITHIN_S = 5.0
LARGEST_ERROR = 64 * 1024
LARGEST_ANSWER = 64 * 1024 * 1024
MOST_CONNECTIONS = 1024
_TIMEOUT = "TIMEOUT"
_OPERATORS = (401, 403, 404)  # statuses that only the operator can mend

logger = structlog.get_logger(__name__)
Deadline = float | None


class RemoteClient:
    """Asks these remote models, by id; one per process serves all its event loops.

    Every call raises RemoteUnavailable when the server cannot be used, and what its answer comes to: InvalidRequest,
    ContextLengthExceeded, EngineOverloaded, ModelNotLoaded, DeadlineExceeded, InferenceFailed.
    """

    def __init__(self, models: Mapping[str, RemoteModel]) -> None:
        self.models = models
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
        self._health = {model_id: Health() for model_id in models}
        self._checking: dict[str, asyncio.Task[Health]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        """Returns once the server has begun to answer. Closing the stream closes the connection, which cancels."""
        model = self.models[model_id]
        asked = requests.generation(model, request)
        deadline = None if request.timeout is None else time.monotonic() + request.timeout
        answer = await self._open(model, asked, deadline)
        pieces = _streamed(answer) if asked.streams else _whole(answer)
        stream = GenerationStream(request.request_id, lambda: _end(task))
        reading = _read(stream, Reading(request.n), pieces, answer, model, deadline)
        task = asyncio.get_running_loop().create_task(reading)
        self._reading.add(task)
        task.add_done_callback(lambda task: self._close(task, answer))
        return stream

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        """Vectors in the order of the texts, as long as the server made them."""
        model = self.models[model_id]
        answer = await self._open(model, requests.embeddings(model, request.texts), None)
        async with contextlib.aclosing(answer):
            try:
                async with asyncio.timeout(model.token_timeout):
                    read = msgspec.json.decode(await _body(answer, LARGEST_ANSWER), type=EmbeddingsAnswer)
            except TimeoutError:
                raise _late(model) from None
            except msgspec.DecodeError as error:  # also a vector for each token, where the server does not pool
                raise InferenceFailed(f"The server behind {model.id} sent no single vector of each text.") from error
            except (httpx2.HTTPError, BrokenAnswer) as error:
                raise InferenceFailed(f"The server behind {model.id} sent no embeddings; try again.") from error
        if sorted(vector.index for vector in read.data) != list(range(len(request.texts))):
            raise InferenceFailed(f"The server behind {model.id} did not embed every text; try again.")
        vectors = [vector.embedding for vector in sorted(read.data, key=lambda vector: vector.index)]
        try:
            packed = tuple(struct.pack(f"<{len(vectors[0])}f", *vector) for vector in vectors)
        except (struct.error, OverflowError) as error:
            raise InferenceFailed(f"The server behind {model.id} sent no vectors of one length; try again.") from error
        return EmbeddingResult(
            request_id=request.request_id,
            dimensions=len(vectors[0]),
            vectors=packed,
            prompt_tokens=read.usage.prompt_tokens,
        )

    async def tokenize(self, model_id: str, text: str) -> list[int]:
        """InvalidRequest: OpenAI's interface has no such thing."""
        raise _no_tokens(model_id)

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        """InvalidRequest: OpenAI's interface has no such thing."""
        raise _no_tokens(model_id)

    def health(self, model_id: str) -> Health:
        """What is known of the model, without asking."""
        return self._health[model_id]

    async def status(self, model_id: str) -> Health:
        """What is known of the model. The first time it is asked; later somebody is sent to look where that is old,
        so that a server that does not answer delays nobody."""
        health = self._health[model_id]
        if health.checked_at == float("-inf"):
            return await self.check(model_id)
        if health.is_stale and model_id not in self._checking:
            checking = self._checking[model_id] = asyncio.get_running_loop().create_task(self.check(model_id))
            checking.add_done_callback(lambda _: self._checking.pop(model_id, None))
        return health

    async def check(self, model_id: str) -> Health:
        """What is known of the model, asked anew unless it has been a moment ago."""
        health, model = self._health[model_id], self.models[model_id]
        if health.is_stale:
            try:
                async with asyncio.timeout(CHECK_WITHIN_S):
                    listing = await self._listing(model)
            except (TimeoutError, httpx2.HTTPError, BrokenAnswer):
                listing = Listing("The remote server does not answer.")
            if listing.reason is not None:
                self._fail(model, listing.reason)
            else:
                self._recover(model)
                health.context_size = listing.context_size
        return health

    async def close(self) -> None:
        """Close this event loop's connections; what they had asked for is cancelled."""
        if client := self._clients.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    def _close(self, task: asyncio.Task[None], answer: httpx2.Response) -> None:
        """A task that was cancelled before it began has closed nothing."""
        self._reading.discard(task)
        if not answer.is_closed:
            closing = asyncio.get_running_loop().create_task(answer.aclose())
            self._reading.add(closing)
            closing.add_done_callback(self._reading.discard)

    async def _open(self, model: RemoteModel, asked: Asked, deadline: Deadline) -> httpx2.Response:
        """The answer, once it has begun and is none of an error."""
        health = self._health[model.id]
        if health.refuses:
            raise RemoteUnavailable(f"The server behind {model.id} cannot be used just now. {health.error}")
        try:
            async with asyncio.timeout(_within(model.first_token_timeout + model.connect_timeout, deadline)):
                answer = await self._send(model, "POST", asked.url, asked.body)
                if answer.status_code == 200:
                    self._recover(model)
                    return answer
                async with contextlib.aclosing(answer):
                    body = await _body(answer, LARGEST_ERROR)
        except TimeoutError:
            raise _late(model) from None
        except (httpx2.HTTPError, BrokenAnswer) as error:
            self._fail(model, "The remote server does not answer.")
            raise RemoteUnavailable(f"The server behind {model.id} does not answer.") from error
        if answer.status_code in _OPERATORS or 300 <= answer.status_code < 400:
            self._fail(model, reason_of_refusal(answer.status_code))
        raise error_from_answer(model.id, answer.status_code, body, answer.headers.get("Retry-After"))

    async def _listing(self, model: RemoteModel) -> Listing:
        answer = await self._send(model, "GET", model.url("models"))
        async with contextlib.aclosing(answer):
            return read_listing(model, answer.status_code, await _body(answer, LARGEST_ANSWER))

    async def _send(self, model: RemoteModel, method: str, url: str, body: Any = None) -> httpx2.Response:
        headers = {"Accept-Encoding": "identity"} | tracing.headers()
        if model.api_key:
            headers["Authorization"] = f"Bearer {model.api_key}"
        client = self._client()
        limits = httpx2.Timeout(None, connect=model.connect_timeout, pool=model.connect_timeout)
        request = client.build_request(method, url, json=body, headers=headers, timeout=limits)
        return await client.send(request, stream=True)

    def _client(self) -> httpx2.AsyncClient:
        """This event loop's; those of loops that are closed have nothing left to close."""
        loop = asyncio.get_running_loop()
        for other in [other for other in self._clients if other.is_closed()]:
            del self._clients[other]
        if loop not in self._clients:
            limits = httpx2.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=20)
            self._clients[loop] = httpx2.AsyncClient(limits=limits, follow_redirects=False)
        return self._clients[loop]

    def _fail(self, model: RemoteModel, reason: str) -> None:
        health = self._health[model.id]
        if health.error is None:
            logger.warning("remote_model_failed", model=model.id, reason=reason)
        health.note_failure(reason)

    def _recover(self, model: RemoteModel) -> None:
        health = self._health[model.id]
        if health.error is not None:
            logger.info("remote_model_back", model=model.id)
        health.note_success()


def _end(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _read(
    stream: GenerationStream,
    reading: Reading,
    pieces: AsyncIterator[bytes | None],
    answer: httpx2.Response,
    model: RemoteModel,
    deadline: Deadline,
) -> None:
    """Push what comes until the end, or until it takes too long or breaks off; closed whatever happens. What only keeps
    the connection alive gives no more time."""
    until = time.monotonic() + model.first_token_timeout
    async with contextlib.aclosing(answer):
        try:
            while True:
                async with asyncio.timeout(_within(max(0.0, until - time.monotonic()), deadline)):
                    data = await anext(pieces, b"")
                if data == b"":
                    break
                if data is not None:
                    next_by = time.monotonic() + model.token_timeout
                    until = max(until, next_by)  # a piece without a token, as one of the role, ends no longer wait
                    for output in reading.take(data):
                        stream.push(output)
                        until = next_by
            for output in reading.end():
                stream.push(output)
        except TimeoutError:
            late = _late(model).message
            end = StepOutput(0, 0, "", finish_reason=FinishReason.ERROR, usage=Usage(0, 0), error=late)
            stream.push(msgspec.structs.replace(end, error_code=_TIMEOUT))
        except BrokenAnswer as error:
            stream.fail(f"The server behind {model.id} {error}.")
        except (httpx2.HTTPError, LineTooLong):
            stream.fail(f"The connection to the server behind {model.id} broke off; try again.")


async def _streamed(answer: httpx2.Response) -> AsyncIterator[bytes | None]:
    async for event in events(answer.aiter_raw()):
        yield event


async def _whole(answer: httpx2.Response) -> AsyncIterator[bytes | None]:
    yield await _body(answer, LARGEST_ANSWER)


async def _body(answer: httpx2.Response, most: int) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > most:
            raise BrokenAnswer("sent more than any answer needs")
    return bytes(body)


def _within(seconds: float, deadline: Deadline) -> float:
    return seconds if deadline is None else min(seconds, max(0.0, deadline - time.monotonic()))


def _late(model: RemoteModel) -> DeadlineExceeded:
    return DeadlineExceeded(f"The server behind {model.id} took too long; try again, or ask for less.")


def _no_tokens(model_id: str) -> InvalidRequest:
    return InvalidRequest(f"{model_id} is run by another server, which is not asked for tokens.", field="model")
