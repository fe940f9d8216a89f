"""One attempt to deliver a message: from a Parcel to an Outcome, within bounds and without a database.

The connection goes to an address that was checked, and to no other: TLS and the Host header have the name, the socket
has the address. No redirect is followed, no proxy asked, nothing is unpacked, and no more is read than a status needs.
"""

import asyncio
import queue
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import httpcore2
import structlog

from inference.webhooks.destinations import (
    BadDestination,
    Destination,
    LookUp,
    NameUnknown,
    look_up,
    parse_destination,
    public_addresses,
)
from inference.webhooks.models import Attempt
from inference.webhooks.pinned import Overflow, PinnedBackend
from inference.webhooks.schedule import read_retry_after
from shared.observability import tracing
from shared.observability.request_notes import bound_notes

ATTEMPT_S = 15.0
CONNECT_S = 5.0  # for each of a name's addresses
POLITE_S = 1.0  # for the rest of an answer whose status is known: so that its sender sees no reset

Failure = Attempt.Failure
logger = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """What is sent, to whom, for whom. `attempt` tells this attempt from others of the delivery."""

    delivery_id: int
    user_id: int
    attempt: int
    tries: int
    url: str
    body: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a parcel. failure: "" where it arrived. asked: how long the receiver wants to be left alone."""

    started_at: datetime
    duration_ms: int
    status: int | None = None
    failure: str = ""
    asked: timedelta | None = None


class Network:
    """An event loop in a thread of its own, in which attempts run: `send` begins one, `finished` has what became of
    them. Leaving it breaks off what still runs."""

    def __init__(self, *, allowed: frozenset[str], look_up: LookUp = look_up) -> None:
        self._allowed = allowed
        self._look_up = look_up
        self._tls = httpcore2.default_ssl_context()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True)
        self.finished: queue.SimpleQueue[tuple[Parcel, Outcome]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(_break_off(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def send(self, parcel: Parcel) -> None:
        """Begin an attempt. Its outcome comes within ATTEMPT_S, or a moment after."""
        asyncio.run_coroutine_threadsafe(self._deliver_traced(parcel), self._loop)

    async def _deliver_traced(self, parcel: Parcel) -> None:
        with bound_notes(user_id=parcel.user_id), tracing.root("webhook", kind=tracing.SpanKind.CLIENT) as span:
            outcome = await self._deliver(parcel)
            told: dict[str, str | int] = {"stoa.attempt": parcel.tries, "stoa.outcome": outcome.failure or "delivered"}
            tracing.describe(span, told, failed=bool(outcome.failure))
        self.finished.put((parcel, outcome))

    async def _deliver(self, parcel: Parcel) -> Outcome:
        started_at, begun = datetime.now(UTC), time.monotonic()
        status: int | None = None
        asked: timedelta | None = None
        try:
            async with asyncio.timeout(ATTEMPT_S):
                status, retry_after = await self._post(parcel)
            failure = _failure_of_status(status)
            asked = read_retry_after(status, retry_after, datetime.now(UTC))
        except Exception as error:  # whatever a stranger's server made the client stumble over
            failure = _failure_of(error)
        return Outcome(
            started_at=started_at,
            duration_ms=round((time.monotonic() - begun) * 1000),
            status=status,
            failure=failure,
            asked=asked,
        )

    async def _post(self, parcel: Parcel) -> tuple[int, str | None]:
        """The status of the answer, and its Retry-After."""
        destination = parse_destination(parcel.url, allowed=self._allowed)
        found = await asyncio.wrap_future(self._look_up(destination.host, destination.port))
        backend = PinnedBackend(public_addresses(destination, found))
        url = _url(destination)
        headers = [
            *parcel.headers,
            *tracing.headers().items(),
            ("Host", destination.host_header),
            ("Content-Type", "application/json"),
            ("User-Agent", "Stoa-Webhooks/1.0"),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
        ]
        async with (
            httpcore2.AsyncHTTPConnection(url.origin, ssl_context=self._tls, network_backend=backend) as connection,
            connection.stream(
                "POST",
                url,
                headers=headers,
                content=parcel.body.encode(),
                extensions={"timeout": {"connect": CONNECT_S}},
            ) as answer,
        ):
            with suppress(TimeoutError, httpcore2.NetworkError, httpcore2.ProtocolError):
                async with asyncio.timeout(POLITE_S):
                    async for _ in answer.aiter_stream():
                        pass
            asked = [value.decode("latin-1") for name, value in answer.headers if name.lower() == b"retry-after"]
            return answer.status, asked[0] if asked else None


async def _break_off() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _url(destination: Destination) -> httpcore2.URL:
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


def _failure_of(error: Exception) -> str:
    match error:
        case BadDestination():
            return Failure.ADDRESS_REFUSED
        case NameUnknown():
            return Failure.NAME_UNKNOWN
        case TimeoutError() | httpcore2.TimeoutException():
            return Failure.TIMED_OUT
        case Overflow():
            return Failure.TOO_LARGE
        case httpcore2.ConnectError():
            return Failure.TLS if isinstance(error.__cause__, ssl.SSLError) else Failure.NOT_CONNECTED
        case httpcore2.NetworkError() | httpcore2.ProtocolError():
            return Failure.BROKEN_ANSWER
    logger.error("webhook_attempt_failed", exc_info=error)
    return Failure.INTERNAL
