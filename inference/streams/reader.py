"""Stored streams as HTTP: all events after a position, from this process or from the database, until the end.

A slow client holds neither events in memory nor a database connection.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextvars import Context

import structlog
from django.db import Error as DatabaseError
from django.utils import timezone

from inference.engine import InvalidRequest
from inference.protocol import sse
from inference.streams import services
from inference.streams.recorder import live_recorder
from inference.streams.services import StreamState
from shared.accounts.authentication import Principal
from shared.accounts.middleware.connections import AuthenticatedConnection, AuthenticatedStream, ConnectionRegistry
from shared.api.errors import ApiError
from shared.serving.asgi.threads import release_request_thread
from shared.serving.db_threads import run_in_db_thread

POLL_INTERVAL_SECONDS = 0.1
KEEP_ALIVE_SECONDS = 15.0
MAX_POSITION_WAIT_SECONDS = 1.0  # for events that a client has seen and that are about to be written
RECOVERY_DELAY_SECONDS = 3.0  # after a failure of the database: writers first renew the leases that expired meanwhile
MAX_STREAMS_PER_USER = 1000  # in one process

logger = structlog.get_logger(__name__)
_connections = ConnectionRegistry(max_per_user=MAX_STREAMS_PER_USER)
Recover = Callable[[int], bool]


async def check_position(stream_pk: int, after: int, *, field: str) -> None:
    """Raise InvalidRequest for a position beyond the stream's events, and ApiError 404 for a deleted stream.

    A client may have seen events that are written only in a moment.
    """
    deadline = time.monotonic() + MAX_POSITION_WAIT_SECONDS
    while True:
        recorder = live_recorder(stream_pk)
        if recorder is not None and after < recorder.next_index:
            return
        state = await run_in_db_thread(services.read_state, stream_pk, timezone.now())
        if state is None:
            raise ApiError(404, "The events of this stream are no longer stored.")
        if after <= state.last:
            return
        if state.has_ended or time.monotonic() > deadline:
            raise InvalidRequest(
                f"`{field}` must be the number of an event of this stream, from 0 to {state.last}, not {after}.",
                field=field,
            )
        await asyncio.sleep(POLL_INTERVAL_SECONDS)


class StoredStreamResponse(AuthenticatedStream):
    """The events of a stored stream after `after`, those to come included.

    It ends early once the credential is invalid or the process shuts down. Create it on the event loop.
    recover: ends a stream whose writer has died, and returns whether it did; called in a thread.
    Raise ApiError 503 if the user has MAX_STREAMS_PER_USER open streams.
    """

    def __init__(self, stream_pk: int, *, after: int, principal: Principal, recover: Recover | None = None) -> None:
        stopped = asyncio.Event()
        # A stream of this process ends by itself while the process drains; any other goes on elsewhere.
        on_drain = _ignore if live_recorder(stream_pk) else stopped.set
        client = AuthenticatedConnection(principal, on_revoked=stopped.set, on_drain=on_drain)
        events = _events(stream_pk, after, stopped, recover)
        super().__init__(
            events, registry=_connections, client=client, content_type=sse.CONTENT_TYPE, headers=sse.HEADERS
        )


def _ignore() -> None:
    """Let a stream of this process end by itself."""


async def _events(stream_pk: int, after: int, stopped: asyncio.Event, recover: Recover | None) -> AsyncIterator[bytes]:
    release_request_thread()  # that the middleware held for the response
    cursor = _Cursor(stream_pk, after, stopped, recover)
    while not stopped.is_set():
        try:
            async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                frames = await cursor.read()
        except TimeoutError:
            yield sse.KEEP_ALIVE
            continue
        if frames is None:
            return
        yield frames


class _Cursor:
    """The position of one reader in a stream."""

    def __init__(self, stream_pk: int, after: int, stopped: asyncio.Event, recover: Recover | None) -> None:
        self._stream_pk = stream_pk
        self._after = after
        self._stopped = stopped
        self._recover = recover
        self._recorder = live_recorder(stream_pk)
        self._recovers_at = 0.0

    async def read(self) -> bytes | None:
        """Return the next events, once there are some, or None at the end."""
        while True:
            recorder = self._recorder
            if recorder is None:
                return await self._read_stored()
            frames = recorder.read(self._after)
            if frames:
                self._after += len(frames)
                return b"".join(frames)
            if frames is None:
                page = await run_in_db_thread(services.read_page, self._stream_pk, self._after)
                self._after = page.last
                return page.frames
            if recorder.is_closed and recorder.is_lost:
                self._recorder = None
                continue
            if recorder.is_closed:
                return None
            await recorder.wait(self._after)

    async def _read_stored(self) -> bytes | None:
        while not self._stopped.is_set():
            try:
                page = await run_in_db_thread(services.read_page, self._stream_pk, self._after)
                if page.frames:
                    self._after = page.last
                    return page.frames
                state = await run_in_db_thread(services.read_state, self._stream_pk, timezone.now())
                if state is None or (state.has_ended and state.last <= self._after):
                    return None
                if await self._has_recovered(state):
                    continue
            except DatabaseError as error:
                logger.warning("stream_not_read", reason=type(error).__name__)
                self._recovers_at = time.monotonic() + RECOVERY_DELAY_SECONDS
                await asyncio.sleep(POLL_INTERVAL_SECONDS * 10)
                continue
            await _tail.wait(self._stream_pk, self._after)
        return None

    async def _has_recovered(self, state: StreamState) -> bool:
        if state.has_ended or state.has_writer or self._recover is None or time.monotonic() < self._recovers_at:
            return False
        return await run_in_db_thread(self._recover, self._stream_pk)


class Tail:
    """The polling of the database for all streams that readers of this process wait for: one query at a time."""

    MAX_WAIT_SECONDS = 2.0  # then the reader looks for a writer that has died

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    async def wait(self, stream_pk: int, after: int) -> None:
        """Return once the stream has an event after this number, has ended or is gone, or after MAX_WAIT_SECONDS."""
        changed = asyncio.get_running_loop().create_future()
        self._waiting[changed] = (stream_pk, after)
        if self._task is None or self._task.done() or self._task.get_loop() is not asyncio.get_running_loop():
            self._task = asyncio.create_task(self._poll(), context=Context())
        try:
            await asyncio.wait([changed], timeout=self.MAX_WAIT_SECONDS)
        finally:
            self._waiting.pop(changed, None)

    async def _poll(self) -> None:
        while self._waiting:
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
            pks = {stream_pk for stream_pk, _ in self._waiting.values()}
            try:
                states = await run_in_db_thread(services.read_last_events, pks)
            except DatabaseError as error:
                logger.warning("stream_not_read", reason=type(error).__name__)
                continue
            for changed, (stream_pk, after) in list(self._waiting.items()):
                last, has_ended = states.get(stream_pk, (-1, True))
                if (last > after or has_ended) and not changed.done() and stream_pk in pks:
                    changed.set_result(None)


_tail = Tail()
