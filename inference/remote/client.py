"""The client of remote models. It has the methods of the engine's `EngineClient`."""

import asyncio
import contextlib
import struct
import time
from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec
import structlog

from inference.engine import (
    EmbeddingRequest,
    EmbeddingResult,
    GenerationRequest,
    GenerationStream,
    InferenceFailed,
    InvalidRequest,
    ScoringRequest,
    ScoringResult,
    TokenizationRequest,
    TokenizationResult,
)
from inference.remote.configuration import RemoteModel
from inference.remote.errors import (
    CONNECTION_ERRORS,
    RemoteUnavailable,
    error_from_response,
    unavailable_reason,
)
from inference.remote.health import ModelListing, RemoteHealth, parse_model_list
from inference.remote.requests import RemoteRequest, build_embedding_request, build_generation_request
from inference.remote.responses import InvalidResponse, RemoteEmbeddings, ResponseParser
from inference.remote.streaming import Deadline, push_outputs, read_body, remaining_seconds, timeout_error
from shared.observability import tracing

CHECK_TIMEOUT_SECONDS = 5.0
MAX_ERROR_BYTES = 64 * 1024
MAX_CONNECTION_COUNT = 1024
_OPERATOR_STATUSES = (401, 403, 404)  # which only the operator's configuration can cause
_NO_ANSWER = "The remote server does not answer."

logger = structlog.get_logger(__name__)


class RemoteClient:
    """A client of remote models by id. A process has one, shared by all its event loops.

    Every call raises RemoteUnavailable if the server cannot be used, and otherwise the error of its response:
    InvalidRequest, ContextLengthExceeded, EngineOverloaded, ModelNotLoaded, DeadlineExceeded or InferenceFailed.
    """

    def __init__(self, models: Mapping[str, RemoteModel]) -> None:
        self.models = models
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
        self._health = {model_id: RemoteHealth() for model_id in models}
        self._checks: dict[str, asyncio.Task[RemoteHealth]] = {}
        self._readers: set[asyncio.Task[None]] = set()

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        """Return a stream once the response has begun. Closing it closes the connection, which cancels the request."""
        model = self.models[model_id]
        remote_request = build_generation_request(model, request)
        deadline = None if request.timeout is None else time.monotonic() + request.timeout
        response = await self._open(model, remote_request, deadline)

        def cancel() -> None:
            task.cancel()

        stream = GenerationStream(request.request_id, cancel)
        parser = ResponseParser(request.n)
        is_streamed = remote_request.is_streamed
        reader = push_outputs(stream, parser, response, model, deadline, is_streamed=is_streamed)
        task = asyncio.get_running_loop().create_task(reader)
        self._readers.add(task)
        task.add_done_callback(lambda task: self._close_response(task, response))
        return stream

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        """Return one vector per text, in the order of the texts and as long as the server made them."""
        model = self.models[model_id]
        response = await self._open(model, build_embedding_request(model, request.texts), None)
        body = await self._read_embeddings(model, response)
        if sorted(vector.index for vector in body.data) != list(range(len(request.texts))):
            raise InferenceFailed(f"The server of {model.id} did not embed every text; try again.")
        vectors = [vector.embedding for vector in sorted(body.data, key=lambda vector: vector.index)]
        try:
            packed = tuple(struct.pack(f"<{len(vectors[0])}f", *vector) for vector in vectors)
        except (struct.error, OverflowError) as error:
            raise InferenceFailed(f"The server of {model.id} sent vectors of different lengths; try again.") from error
        return EmbeddingResult(
            request_id=request.request_id,
            dimensions=len(vectors[0]),
            vectors=packed,
            prompt_tokens=body.usage.prompt_tokens,
        )

    async def score(self, model_id: str, request: ScoringRequest) -> ScoringResult:
        """Raise InvalidRequest: OpenAI's API has no scores of texts."""
        needed = "text-generation" if request.questions else "rerank" if request.queries else "classification"
        message = f"{model_id} runs on another server, which cannot score texts or answers. Use a model of this server."
        raise InvalidRequest(message, field="model", capability=needed)

    async def tokenize(self, model_id: str, request: TokenizationRequest) -> TokenizationResult:
        """Raise InvalidRequest: OpenAI's API has no tokenization."""
        raise _no_tokenization(model_id)

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        """Raise InvalidRequest: OpenAI's API has no tokenization."""
        raise _no_tokenization(model_id)

    def health(self, model_id: str) -> RemoteHealth:
        """Return the last known health of a model."""
        return self._health[model_id]

    async def status(self, model_id: str) -> RemoteHealth:
        """Return the last known health of a model, after a check the first time only.

        Stale health starts a check in the background, so that a server that does not answer delays no caller.
        """
        health = self._health[model_id]
        if health.checked_at == float("-inf"):
            return await self.check(model_id)
        if health.is_stale and model_id not in self._checks:
            check = self._checks[model_id] = asyncio.get_running_loop().create_task(self.check(model_id))
            check.add_done_callback(lambda _: self._checks.pop(model_id, None))
        return health

    async def check(self, model_id: str) -> RemoteHealth:
        """Return the health of a model, read from the server if the last known health is stale."""
        health, model = self._health[model_id], self.models[model_id]
        if health.is_stale:
            try:
                async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                    listing = await self._read_listing(model)
            except (TimeoutError, *CONNECTION_ERRORS, InvalidResponse):
                listing = ModelListing(_NO_ANSWER)
            if listing.error is not None:
                self._record_failure(model, listing.error)
            else:
                self._record_success(model)
                health.context_size = listing.context_size
        return health

    async def close(self) -> None:
        """Close the connections of this event loop, which cancels their requests."""
        if client := self._clients.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    def _close_response(self, task: asyncio.Task[None], response: httpx2.Response) -> None:
        """Close the response of a reader that was cancelled before its first step."""
        self._readers.discard(task)
        if not response.is_closed:
            closing = asyncio.get_running_loop().create_task(response.aclose())
            self._readers.add(closing)
            closing.add_done_callback(self._readers.discard)

    async def _open(self, model: RemoteModel, request: RemoteRequest, deadline: Deadline) -> httpx2.Response:
        """Send a request, and return its response once that has begun with status 200."""
        health = self._health[model.id]
        if health.is_unavailable:
            raise RemoteUnavailable(f"The server of {model.id} is unavailable. {health.error}")
        try:
            seconds = remaining_seconds(model.first_token_timeout + model.connect_timeout, deadline)
            async with asyncio.timeout(seconds):
                response = await self._send(model, "POST", request.url, request.body)
                if response.status_code == 200:
                    self._record_success(model)
                    return response
                async with contextlib.aclosing(response):
                    body = await read_body(response, MAX_ERROR_BYTES)
        except TimeoutError:
            raise timeout_error(model) from None
        except (*CONNECTION_ERRORS, InvalidResponse) as error:
            self._record_failure(model, _NO_ANSWER)
            raise RemoteUnavailable(f"The server of {model.id} does not answer.") from error
        status = response.status_code
        if status in _OPERATOR_STATUSES or 300 <= status < 400:
            self._record_failure(model, unavailable_reason(status))
        raise error_from_response(model.id, status, body, response.headers.get("Retry-After"))

    async def _read_embeddings(self, model: RemoteModel, response: httpx2.Response) -> RemoteEmbeddings:
        async with contextlib.aclosing(response):
            try:
                async with asyncio.timeout(model.token_timeout):
                    return msgspec.json.decode(await read_body(response), type=RemoteEmbeddings)
            except TimeoutError:
                raise timeout_error(model) from None
            except msgspec.DecodeError as error:  # also a vector per token, from a model that does not pool
                raise InferenceFailed(f"The server of {model.id} did not send one vector per text.") from error
            except CONNECTION_ERRORS as error:
                raise RemoteUnavailable(f"The connection to the server of {model.id} was lost.") from error
            except InvalidResponse as error:
                raise InferenceFailed(f"The server of {model.id} {error}.") from error

    async def _read_listing(self, model: RemoteModel) -> ModelListing:
        response = await self._send(model, "GET", model.url("models"))
        async with contextlib.aclosing(response):
            return parse_model_list(model, response.status_code, await read_body(response))

    async def _send(self, model: RemoteModel, method: str, url: str, body: Any = None) -> httpx2.Response:
        headers = {"Accept-Encoding": "identity"} | tracing.propagation_headers()
        if model.api_key:
            headers["Authorization"] = f"Bearer {model.api_key}"
        client = self._loop_client()
        timeout = httpx2.Timeout(None, connect=model.connect_timeout, pool=model.connect_timeout)
        request = client.build_request(method, url, json=body, headers=headers, timeout=timeout)
        return await client.send(request, stream=True)

    def _loop_client(self) -> httpx2.AsyncClient:
        """Return the HTTP client of this event loop. Clients of closed loops have nothing left to close."""
        loop = asyncio.get_running_loop()
        for other in [other for other in self._clients if other.is_closed()]:
            del self._clients[other]
        if loop not in self._clients:
            limits = httpx2.Limits(max_connections=MAX_CONNECTION_COUNT, max_keepalive_connections=20)
            self._clients[loop] = httpx2.AsyncClient(limits=limits, follow_redirects=False)
        return self._clients[loop]

    def _record_failure(self, model: RemoteModel, reason: str) -> None:
        health = self._health[model.id]
        if health.error is None:
            logger.warning("remote_model_failed", model=model.id, reason=reason)
        health.record_failure(reason)

    def _record_success(self, model: RemoteModel) -> None:
        health = self._health[model.id]
        if health.error is not None:
            logger.info("remote_model_recovered", model=model.id)
        health.record_success()


def _no_tokenization(model_id: str) -> InvalidRequest:
    return InvalidRequest(f"{model_id} runs on another server, which cannot tokenize for clients.", field="model")
