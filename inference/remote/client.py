"""The client of remote servers, which sends one request to one server."""

import asyncio
import contextlib
import struct
import time
from dataclasses import dataclass
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
)
from inference.remote.configuration import RemoteModel, server_of
from inference.remote.errors import (
    CONNECTION_ERRORS,
    UNREACHED_ERRORS,
    RemoteUnavailable,
    error_from_response,
    unavailable_reason,
)
from inference.remote.health import (
    HANGS,
    MAX_FAILED_REQUESTS,
    ModelListing,
    RemoteHealth,
    clock_warning,
    parse_model_list,
)
from inference.remote.requests import RemoteRequest, build_embedding_request, build_generation_request
from inference.remote.responses import InvalidResponse, RemoteEmbeddings, ResponseParser
from inference.remote.streaming import Deadline, is_past, push_outputs, read_body, remaining_seconds, timeout_error
from shared.observability import tracing

CHECK_TIMEOUT_SECONDS = 5.0
MAX_ERROR_BYTES = 64 * 1024
MAX_CONNECTION_COUNT = 1024
_OPERATOR_STATUSES = (401, 403, 404)  # which only the operator's configuration can cause
_NO_ANSWER = "The remote server does not answer."

logger = structlog.get_logger(__name__)


@dataclass(eq=False)
class RemoteGeneration:
    """A generation whose response has begun. parser: of its body. deadline: when the request times out.

    prompt_tokens: 0, as servers report them at the end.
    """

    model: RemoteModel
    response: httpx2.Response
    parser: ResponseParser
    deadline: Deadline
    is_streamed: bool
    prompt_tokens: int = 0

    @property
    def is_closed(self) -> bool:
        return self.response.is_closed

    async def close(self) -> None:
        """Close the connection, which cancels the generation."""
        await self.response.aclose()

    async def push_outputs(self, stream: GenerationStream) -> None:
        """Push the outputs to a stream until the response ends, and close it. Raise StreamFailure."""
        await push_outputs(stream, self.parser, self.response, self.model, self.deadline, is_streamed=self.is_streamed)


class RemoteClient:
    """A client of remote servers. A process has one, shared by all its event loops.

    Every call raises RemoteUnavailable if the server cannot be used, and otherwise the error of its response:
    InvalidRequest, ContextLengthExceeded, EngineOverloaded, ModelNotLoaded, DeadlineExceeded or InferenceFailed.
    """

    def __init__(self) -> None:
        self._clients: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}
        self._health: dict[RemoteModel, RemoteHealth] = {}
        self._checks: dict[RemoteModel, asyncio.Task[RemoteHealth]] = {}

    async def generate(self, model: RemoteModel, request: GenerationRequest, deadline: Deadline) -> RemoteGeneration:
        """Return a generation once its response has begun."""
        remote_request = build_generation_request(model, request)
        response = await self._open(model, remote_request, deadline)
        return RemoteGeneration(model, response, ResponseParser(request.n), deadline, remote_request.is_streamed)

    async def embed(self, model: RemoteModel, request: EmbeddingRequest) -> EmbeddingResult:
        """Return one vector per text, in the order of the texts and as long as the server made them."""
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

    def health(self, model: RemoteModel) -> RemoteHealth:
        """Return the last known health of a model."""
        return self._health.setdefault(model, RemoteHealth())

    async def status(self, model: RemoteModel) -> RemoteHealth:
        """Return the last known health of a model, after a check the first time only."""
        health = self.health(model)
        if health.checked_at == float("-inf"):
            return await self.check(model)
        self.check_if_stale(model)
        return health

    def check_if_stale(self, model: RemoteModel) -> None:
        """Start a check of stale health in the background: a server that does not answer delays no caller."""
        if self.health(model).is_stale and model not in self._checks:
            check = self._checks[model] = asyncio.get_running_loop().create_task(self.check(model))
            check.add_done_callback(lambda _: self._checks.pop(model, None))

    async def check(self, model: RemoteModel) -> RemoteHealth:
        """Return the health of a model, read from the server if the last known health is stale."""
        health = self.health(model)
        if health.is_stale:
            try:
                async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                    listing = await self._read_listing(model)
            except (TimeoutError, *CONNECTION_ERRORS, InvalidResponse):
                listing = ModelListing(_NO_ANSWER)
            if listing.error is not None:
                self.record_failure(model, listing.error)
            else:
                self._record_success(model)
                health.context_size, health.warning = listing.context_size, listing.warning
        return health

    async def close(self) -> None:
        """Close the connections of this event loop, which cancels their requests and checks."""
        loop = asyncio.get_running_loop()
        for check in [check for check in self._checks.values() if check.get_loop() is loop]:
            check.cancel()
        if client := self._clients.pop(loop, None):
            await client.aclose()

    async def _open(self, model: RemoteModel, request: RemoteRequest, deadline: Deadline) -> httpx2.Response:
        """Send a request, and return its response once that has begun with status 200."""
        health = self.health(model)
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
            if not is_past(deadline):
                self.record_hang(model)
            raise timeout_error(model) from None
        except (*CONNECTION_ERRORS, InvalidResponse) as error:
            self.record_failure(model, _NO_ANSWER)
            message = f"The server of {model.id} does not answer."
            raise RemoteUnavailable(message, was_reached=not isinstance(error, UNREACHED_ERRORS)) from error
        status = response.status_code
        if status in _OPERATOR_STATUSES or 300 <= status < 400:
            self.record_failure(model, unavailable_reason(status))
        elif status >= 500 and status != 503:  # 503, like 429, is the answer of a server that works and is full
            health.failed_requests += 1
            if health.is_on_trial:
                self.record_failure(model, unavailable_reason(status))
        raise error_from_response(model, status, body, response.headers.get("Retry-After"))

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
            listing = parse_model_list(model, response.status_code, await read_body(response))
            warning = clock_warning(response.headers.get("Date"), time.time())
            return msgspec.structs.replace(listing, warning=warning)

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

    def record_failure(self, model: RemoteModel, reason: str) -> None:
        """Record that the server cannot be used. Requests to it are refused for CHECK_INTERVAL_SECONDS."""
        health = self.health(model)
        if health.error is None:
            logger.warning("remote_model_failed", model=model.id, server=server_of(model.base_url), reason=reason)
        health.record_failure(reason)

    def record_hang(self, model: RemoteModel) -> None:
        """Record that the server has sent nothing of a response within the time limit of the model."""
        self.health(model).failed_requests = MAX_FAILED_REQUESTS
        self.record_failure(model, HANGS)

    def _record_success(self, model: RemoteModel) -> None:
        health = self.health(model)
        if health.error is not None:
            logger.info("remote_model_recovered", model=model.id, server=server_of(model.base_url))
        health.record_success()
