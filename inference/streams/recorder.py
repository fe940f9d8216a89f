"""Recorders write the events of running streams: in groups, from one thread per process, so that no token waits.

A recorder keeps its newest events in memory too, for readers in the same process.
"""

import asyncio
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count, islice

import structlog
from django.db import DataError, IntegrityError, NotSupportedError, ProgrammingError, connection
from django.db import Error as DatabaseError
from django.utils import timezone

from inference.engine import GenerationStream
from inference.streams import services
from inference.streams.services import NewEvents, StreamLost
from inference.streams.shared_commits import commit
from shared.backoff import Backoff

FLUSH_INTERVAL_SECONDS = 0.25
RENEW_INTERVAL_SECONDS = services.LEASE_DURATION.total_seconds() / 4
MAX_WINDOW_BYTES = 64 * 1024  # of written events in memory; events that are not written yet stay in any case
MAX_STREAMS_PER_FLUSH = 200
END_BACKOFF = Backoff(first_seconds=0.25, max_seconds=2.0)  # the end is tried again before a lease expires
PERMANENT_ERRORS = (DataError, IntegrityError, NotSupportedError, ProgrammingError)  # they come again

# From the number of the last event to the event, in the transaction that writes it.
WriteEnd = Callable[[int], bytes | None]

logger = structlog.get_logger(__name__)
_live: dict[int, "StreamRecorder"] = {}


def live_recorder(stream_pk: int) -> "StreamRecorder | None":
    """Return the recorder of a stream that this process writes."""
    return _live.get(stream_pk)


class StreamRecorder:
    """The writer of one stream, for use by one event loop.

    next_index: number of the next event. is_lost: another run has taken the stream over, or it was ended or deleted.
    is_cancelled: the response of the stream has ended, and its run has still to end the stream.
    """

    def __init__(self, stream_pk: int, owner: uuid.UUID, *, next_index: int = 0) -> None:
        self.stream_pk = stream_pk
        self.owner = owner
        self.next_index = next_index
        self.is_closed = self.is_lost = self.is_cancelled = False
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._window: deque[bytes] = deque()
        self._window_bytes = 0
        self.is_uncertain = False  # whether a write failed that may have been committed
        self._written_index = next_index  # number of the first event that is not written yet
        self._readers: set[asyncio.Future[None]] = set()
        self._outputs: GenerationStream | None = None
        _live[stream_pk] = self
        _flusher.add(self)

    def append(self, frame: bytes) -> None:
        """Add an event. It is readable in this process at once, and written within FLUSH_INTERVAL_SECONDS."""
        with self._lock:
            self._append(frame)
        self._wake_readers()

    def follow(self, outputs: GenerationStream) -> None:
        """Close this generation as soon as the stream is lost or cancelled."""
        self._outputs = outputs
        if self.is_lost or self.is_cancelled:
            self._loop.create_task(outputs.close())

    async def finish(self, write_end: WriteEnd) -> None:
        """Write the rest and the last event, and end the stream, in one transaction with what `write_end` writes.

        Readers get the last event after the commit. While the database fails it is tried again, for as long as nobody
        else has ended the stream. Raise StreamLost, and errors of the database that would come again.
        """
        for failure_count in count(1):
            await asyncio.to_thread(_flusher.remove, self)
            try:
                last = await commit(partial(self._write_end, write_end))
                break
            except StreamLost:
                self.lose()
                raise
            except PERMANENT_ERRORS:
                raise
            except DatabaseError as error:
                logger.warning("stream_end_not_written", stream=self.stream_pk, reason=type(error).__name__)
            _flusher.add(self)  # it renews the lease meanwhile
            await asyncio.sleep(END_BACKOFF.seconds(failure_count))
        with self._lock:
            self._written_index = self.next_index + (last is not None)
            if last is not None:
                self._append(last)
        self._close()

    async def abandon(self) -> None:
        """Stop writing. Events that are not written yet are dropped."""
        self.is_lost = True
        await asyncio.to_thread(_flusher.remove, self)
        self._close()

    def _close(self) -> None:
        self.is_closed = True
        if _live.get(self.stream_pk) is self:
            del _live[self.stream_pk]
        self._wake_readers()

    def read(self, after: int) -> list[bytes] | None:
        """Return the events after this number that are in memory, or None if the next one is only in the database."""
        with self._lock:
            skipped = after + 1 - (self.next_index - len(self._window))
            return None if skipped < 0 else list(islice(self._window, skipped, None))

    async def wait(self, after: int) -> None:
        """Wait for an event after this number, or for the recorder's end."""
        while self.next_index <= after + 1 and not self.is_closed:
            changed: asyncio.Future[None] = self._loop.create_future()
            self._readers.add(changed)
            try:
                await changed
            finally:
                self._readers.discard(changed)

    def unwritten(self) -> NewEvents | None:
        """Return the events that are not written yet."""
        with self._lock:
            count = self.next_index - self._written_index
            frames = list(islice(self._window, len(self._window) - count, None))
        return NewEvents(self.stream_pk, self.owner, self._written_index, frames) if frames else None

    def note_written(self, events: NewEvents) -> None:
        """Note that these events are in the database. Thread-safe."""
        with self._lock:
            self._written_index = events.first + len(events.frames)
            self.is_uncertain = False
            self._trim()

    def note_stored(self, next_index: int) -> None:
        """Note that events before this number are in the database, as after a commit that seemed to fail."""
        with self._lock:
            self._written_index = max(self._written_index, next_index)
            self.is_uncertain = False
            self._trim()

    def lose(self) -> None:
        """Note that the stream has another writer or has ended. Its run then abandons it. Thread-safe."""
        self.is_lost = True
        self._stop_generation()

    def cancel(self) -> None:
        """Note that the response of the stream was ended. Its run then ends the stream. Thread-safe."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self._stop_generation()

    def _stop_generation(self) -> None:
        outputs = self._outputs
        if outputs is not None and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(outputs.close(), self._loop)

    def _append(self, frame: bytes) -> None:
        self._window.append(frame)
        self._window_bytes += len(frame)
        self.next_index += 1
        if self._window_bytes > MAX_WINDOW_BYTES:
            self._trim()

    def _trim(self) -> None:
        while self._window_bytes > MAX_WINDOW_BYTES and self.next_index - len(self._window) < self._written_index:
            self._window_bytes -= len(self._window.popleft())

    def _wake_readers(self) -> None:
        for changed in self._readers:
            if not changed.done():
                changed.set_result(None)

    def _write_end(self, write_end: WriteEnd) -> bytes | None:
        services.end_stream(stream_pk=self.stream_pk, owner=self.owner, now=timezone.now())
        if self.is_uncertain:
            self.note_stored(services.next_index(self.stream_pk))
        last, unwritten = write_end(self.next_index), self.unwritten()
        frames = [*(unwritten.frames if unwritten else ()), *([] if last is None else [last])]
        if frames:
            first = unwritten.first if unwritten else self.next_index
            services.append_events(stream_pk=self.stream_pk, first=first, frames=frames)
        return last


class Flusher:
    """The thread that writes the events of all recorders of this process and renews their leases."""

    def __init__(self) -> None:
        self._recorders: dict[uuid.UUID, StreamRecorder] = {}
        self._starting, self._flushing = threading.Lock(), threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._renewed_at = 0.0

    def add(self, recorder: StreamRecorder) -> None:
        """Write the events of this recorder from now on."""
        self._recorders[recorder.owner] = recorder
        with self._starting:
            if self._thread is None or not self._thread.is_alive():  # a fork has no thread
                self._thread = threading.Thread(target=self._run, name="stream-flusher", daemon=True)
                self._thread.start()
        self._wake.set()

    def remove(self, recorder: StreamRecorder) -> None:
        """Write nothing more of this recorder; return after a flush that is under way. It may block."""
        if self._recorders.pop(recorder.owner, None) is not None:
            with self._flushing:
                pass

    def flush(self) -> None:
        """Renew the leases if that is due, and write what is not written yet."""
        with self._flushing:
            recorders = list(self._recorders.values())
            if recorders and time.monotonic() > self._renewed_at + RENEW_INTERVAL_SECONDS:
                services.renew_leases(owners={one.stream_pk: one.owner for one in recorders}, now=timezone.now())
                self._renewed_at = time.monotonic()
            self._find_cancelled(recorders)
            if uncertain := [one for one in recorders if one.is_uncertain]:
                self._find_written(uncertain)
            for start in range(0, len(recorders), MAX_STREAMS_PER_FLUSH):
                self._write(recorders[start : start + MAX_STREAMS_PER_FLUSH])

    def _find_cancelled(self, recorders: list[StreamRecorder]) -> None:
        if recorders:
            cancelled = services.find_cancelled([one.stream_pk for one in recorders])
            for recorder in recorders:
                if recorder.stream_pk in cancelled:
                    recorder.cancel()

    def _find_written(self, recorders: list[StreamRecorder]) -> None:
        last_events = services.read_last_events([one.stream_pk for one in recorders])
        for recorder in recorders:
            last, _ = last_events.get(recorder.stream_pk, (-1, True))
            recorder.note_stored(last + 1)

    def _write(self, recorders: list[StreamRecorder]) -> None:
        events = {one.owner: unwritten for one in recorders if (unwritten := one.unwritten())}
        if not events:
            return
        for recorder in recorders:
            recorder.is_uncertain = recorder.owner in events
        lost = services.write_events(list(events.values()))
        for recorder in recorders:
            if recorder.owner in lost:
                recorder.lose()
                self._recorders.pop(recorder.owner, None)
            elif recorder.owner in events:
                recorder.note_written(events[recorder.owner])

    def _run(self) -> None:
        while True:
            if not self._recorders:
                connection.close()
                self._wake.wait()
            self._wake.clear()
            time.sleep(FLUSH_INTERVAL_SECONDS)
            try:
                self.flush()
            except DatabaseError as error:  # the events stay in memory until the database answers
                logger.warning("stream_events_not_written", reason=type(error).__name__)
                connection.close()
            except Exception:  # without this thread no event would be written any more
                logger.exception("stream_events_not_written")
                connection.close()


_flusher = Flusher()
