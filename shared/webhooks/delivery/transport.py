"""One attempt to send a delivery: from a DeliveryRequest to an AttemptOutcome, within bounds and without the database.

The connection goes to a checked address only: TLS and the Host header use the name, the socket the address. Redirects,
proxies and decompression are off, and no more is read than the status needs.
"""

import asyncio
import ssl
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import httpcore2
import structlog

from shared.observability import tracing
from shared.observability.request_fields import bind_fields
from shared.webhooks.delivery.pinned import PinnedBackend, ResponseTooLarge
from shared.webhooks.delivery.retries import parse_retry_after
from shared.webhooks.destinations import (
    Destination,
    InvalidDestination,
    LookupFailed,
    Resolver,
    parse_destination,
    require_public,
    resolve,
)
from shared.webhooks.models import Attempt

ATTEMPT_TIMEOUT_SECONDS = 15.0
CONNECT_TIMEOUT_SECONDS = 5.0  # for each address of a name
DRAIN_TIMEOUT_SECONDS = 1.0  # for the body, which is discarded: closing earlier would reset the receiver's connection

Failure = Attempt.Failure
logger = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class DeliveryRequest:
    """A signed message to send. attempt: its number, the fencing token of this attempt."""

    delivery_id: int
    user_id: int
    attempt: int
    tries: int
    url: str
    body: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class AttemptOutcome:
    """The result of an attempt. failure: "" if delivered. retry_after: the receiver's minimum delay."""

    started_at: datetime
    duration_ms: int
    status: int | None = None
    failure: str = ""
    retry_after: timedelta | None = None


class Transport:
    """Context manager with an event loop in its own thread, which makes attempts. Leaving it cancels running ones.

    `send` starts an attempt and returns its outcome, as a future that is cancelled with the attempt.
    """

    def __init__(self, *, allowlist: frozenset[str], resolve: Resolver = resolve) -> None:
        self._allowlist = allowlist
        self._resolve = resolve
        self._tls = httpcore2.default_ssl_context()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(_cancel_all_tasks(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def send(self, request: DeliveryRequest) -> "Future[AttemptOutcome]":
        """Start an attempt. Its outcome follows within ATTEMPT_TIMEOUT_SECONDS or shortly after."""
        return asyncio.run_coroutine_threadsafe(self._attempt_traced(request), self._loop)

    async def _attempt_traced(self, request: DeliveryRequest) -> AttemptOutcome:
        with (
            bind_fields(user_id=request.user_id),
            tracing.trace_request("webhook", kind=tracing.SpanKind.CLIENT) as span,
        ):
            outcome = await self._attempt(request)
            attributes: dict[str, str | int] = {
                "stoa.attempt": request.tries,
                "stoa.outcome": outcome.failure or "delivered",
            }
            tracing.annotate_span(span, attributes, failed=bool(outcome.failure))
        return outcome

    async def _attempt(self, request: DeliveryRequest) -> AttemptOutcome:
        started_at, started = datetime.now(UTC), time.monotonic()
        status: int | None = None
        retry_after: timedelta | None = None
        try:
            async with asyncio.timeout(ATTEMPT_TIMEOUT_SECONDS):
                status, header = await self._post(request)
            failure = _failure_of_status(status)
            retry_after = parse_retry_after(status, header, datetime.now(UTC))
        except Exception as error:  # a hostile server may provoke any exception of the client
            failure = _failure_of_error(error)
        return AttemptOutcome(
            started_at=started_at,
            duration_ms=round((time.monotonic() - started) * 1000),
            status=status,
            failure=failure,
            retry_after=retry_after,
        )

    async def _post(self, request: DeliveryRequest) -> tuple[int, str | None]:
        """Return the response's status and Retry-After header."""
        destination = parse_destination(request.url, allowlist=self._allowlist)
        addresses = await asyncio.wrap_future(self._resolve(destination.host, destination.port))
        backend = PinnedBackend(require_public(destination, addresses))
        url = _httpcore_url(destination)
        async with (
            httpcore2.AsyncHTTPConnection(url.origin, ssl_context=self._tls, network_backend=backend) as connection,
            connection.stream(
                "POST",
                url,
                headers=_headers(request, destination),
                content=request.body.encode(),
                extensions={"timeout": {"connect": CONNECT_TIMEOUT_SECONDS}},
            ) as response,
        ):
            with suppress(TimeoutError, httpcore2.NetworkError, httpcore2.ProtocolError):
                async with asyncio.timeout(DRAIN_TIMEOUT_SECONDS):
                    async for _ in response.aiter_stream():
                        pass
            headers = [value.decode("latin-1") for name, value in response.headers if name.lower() == b"retry-after"]
            return response.status, headers[0] if headers else None


def _headers(request: DeliveryRequest, destination: Destination) -> list[tuple[str, str]]:
    return [
        *request.headers,
        *tracing.propagation_headers().items(),
        ("Host", destination.host_header),
        ("Content-Type", "application/json"),
        ("User-Agent", "Stoa-Webhooks/1.0"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ]


async def _cancel_all_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _httpcore_url(destination: Destination) -> httpcore2.URL:
    return httpcore2.URL(
        scheme=destination.scheme.encode(),
        host=destination.host.encode(),
        port=destination.port,
        target=destination.target.encode(),
    )


def _failure_of_status(status: int) -> str:
    if 200 <= status < 300:
        return ""
    return Failure.REDIRECTED if 300 <= status < 400 else Failure.STATUS


def _failure_of_error(error: Exception) -> str:
    match error:
        case InvalidDestination():
            return Failure.ADDRESS_REFUSED
        case LookupFailed():
            return Failure.NAME_UNKNOWN
        case TimeoutError() | httpcore2.TimeoutException():
            return Failure.TIMED_OUT
        case ResponseTooLarge():
            return Failure.TOO_LARGE
        case httpcore2.ConnectError():
            return Failure.TLS if isinstance(error.__cause__, ssl.SSLError) else Failure.NOT_CONNECTED
        case httpcore2.NetworkError() | httpcore2.ProtocolError():
            return Failure.BROKEN_ANSWER
    logger.error("webhook_attempt_crashed", exc_info=error)
    return Failure.INTERNAL
