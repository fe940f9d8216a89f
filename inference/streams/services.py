"""Services of stored streams: open, take over, write, end, read and delete them.

A stream has at most one writer, who holds its lease. Every write checks that, in the transaction that writes.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, OuterRef, Q, Subquery

from inference.streams.models import StoredStream, StreamSegment
from shared.accounts.models import User
from shared.accounts.services import lock_active_user

LEASE_DURATION = timedelta(seconds=10)
EVENT_RETENTION = timedelta(days=1)  # after the end of the stream
INTERRUPTED_RETENTION = timedelta(days=2)  # of a stream that nobody ended, from its beginning
MAX_PAGE_SEGMENTS = 32
MAX_DELETED_PER_RUN = 200
FRAME_END = "\n\n"


class StreamLost(Exception):
    """The stream has ended, was deleted, or has another writer."""


@dataclass(frozen=True)
class NewEvents:
    """Events to write: `frames` are numbered from `first`."""

    stream_pk: int
    owner: uuid.UUID
    first: int
    frames: Sequence[bytes]


@dataclass(frozen=True)
class StreamState:
    """Readable state of a stream. last: number of its last stored event, or -1."""

    last: int
    has_ended: bool
    has_writer: bool


@dataclass(frozen=True)
class StreamPage:
    """Stored events after a position. last: number of the last one; the position itself if there are none."""

    frames: bytes
    last: int


@transaction.atomic(savepoint=False)
def open_stream(
    *, user: User, now: datetime, owner: uuid.UUID | None = None, key: str | None = None, fingerprint: str = ""
) -> StoredStream:
    """Create a stream. owner: the run that writes it from now on.

    Raise ApiError 401 if the user is no longer active, and IntegrityError for a key that exists.
    """
    lock_active_user(user)
    return StoredStream.objects.create(
        user=user,
        key=key,
        fingerprint=fingerprint,
        owner=owner,
        lease_expires_at=now + LEASE_DURATION if owner else None,
        created_at=now,
    )


def take_over(*, stream_pk: int, owner: uuid.UUID, now: datetime) -> bool:
    """Make `owner` the writer of an open stream without one, and return whether it now is."""
    free = Q(owner=None) | Q(lease_expires_at__lte=now)
    streams = StoredStream.objects.filter(free, pk=stream_pk, ended_at=None)
    return streams.update(owner=owner, lease_expires_at=now + LEASE_DURATION) == 1


def release(*, stream_pk: int, owner: uuid.UUID) -> None:
    """Give up the lease, so that another run takes the stream over at once."""
    StoredStream.objects.filter(pk=stream_pk, owner=owner).update(owner=None, lease_expires_at=None)


def renew_leases(*, owners: Mapping[int, uuid.UUID], now: datetime) -> None:
    """Extend the leases of these writers, by their streams."""
    streams = StoredStream.objects.filter(pk__in=owners, owner__in=owners.values())
    streams.update(lease_expires_at=now + LEASE_DURATION)


@transaction.atomic
def write_events(events: Sequence[NewEvents]) -> set[uuid.UUID]:
    """Write events of several streams, and return the owners that no longer are, whose events are dropped."""
    pks, owners = [one.stream_pk for one in events], {one.owner for one in events}
    streams = StoredStream.objects.select_for_update(no_key=True).filter(pk__in=pks, owner__in=owners).order_by("pk")
    valid = set(streams.values_list("pk", "owner"))
    StreamSegment.objects.bulk_create(_segment(one) for one in events if (one.stream_pk, one.owner) in valid)
    return owners - {owner for _, owner in valid}


def append_events(*, stream_pk: int, first: int, frames: Sequence[bytes]) -> None:
    """Write events of a stream that the caller has created or locked."""
    _segment(NewEvents(stream_pk, uuid.UUID(int=0), first, frames)).save(force_insert=True)


def lock_stream(*, stream_pk: int, owner: uuid.UUID | None) -> None:
    """Lock an open stream until the end of the transaction. owner: None for whoever writes it. Raise StreamLost."""
    streams = StoredStream.objects.select_for_update(no_key=True).filter(pk=stream_pk, ended_at=None)
    if (streams if owner is None else streams.filter(owner=owner)).first() is None:
        raise StreamLost


def lock_streams(stream_pks: Iterable[int]) -> None:
    """Lock these streams until the end of the transaction."""
    list(StoredStream.objects.select_for_update().filter(pk__in=list(stream_pks)).order_by("pk").values_list("pk"))


def end_stream(*, stream_pk: int, now: datetime, owner: uuid.UUID | None = None) -> None:
    """End an open stream, and lock it until the end of the transaction. Raise StreamLost.

    owner: as in `lock_stream`.
    """
    streams = StoredStream.objects.filter(pk=stream_pk, ended_at=None)
    mine = streams if owner is None else streams.filter(owner=owner)
    if not mine.update(owner=None, lease_expires_at=None, ended_at=now):
        raise StreamLost


@transaction.atomic
def end_interrupted(*, stream_pk: int, frame: bytes, now: datetime) -> bool:
    """End a stream whose writer has died, with this event. Return whether it did.

    A stored response ends its own stream, or is run again.
    """
    try:
        lock_stream(stream_pk=stream_pk, owner=None)
    except StreamLost:
        return False
    if StoredStream.objects.filter(pk=stream_pk, response__isnull=False).exists():
        return False
    state = read_state(stream_pk, now)
    if state is None or state.has_writer:
        return False
    append_events(stream_pk=stream_pk, first=next_index(stream_pk), frames=[frame])
    end_stream(stream_pk=stream_pk, now=now)
    return True


def find_cancelled(stream_pks: Collection[int]) -> set[int]:
    """Return those of the streams whose response has ended before them, as a cancelled one does."""
    streams = StoredStream.objects.filter(pk__in=stream_pks, ended_at=None, response__ended_at__isnull=False)
    return set(streams.values_list("pk", flat=True))


def next_index(stream_pk: int) -> int:
    """Return the number of the next event."""
    last = StreamSegment.objects.filter(stream=stream_pk).aggregate(last=Max("last"))["last"]
    return 0 if last is None else last + 1


def read_state(stream_pk: int, now: datetime) -> StreamState | None:
    """Return the state of a stream, or None if it was deleted."""
    stream = StoredStream.objects.filter(pk=stream_pk).values("ended_at", "owner", "lease_expires_at").first()
    if stream is None:
        return None
    expires_at = stream["lease_expires_at"]
    has_writer = expires_at is not None and expires_at > now
    return StreamState(next_index(stream_pk) - 1, stream["ended_at"] is not None, has_writer)


def read_last_events(stream_pks: Collection[int]) -> dict[int, tuple[int, bool]]:
    """Return the number of the last event of each stream, and whether it has ended, without deleted streams."""
    newest = StreamSegment.objects.filter(stream=OuterRef("pk")).order_by("-last").values("last")[:1]
    rows = StoredStream.objects.filter(pk__in=stream_pks).annotate(last=Subquery(newest))
    return {
        pk: (-1 if last is None else last, ended_at is not None)
        for pk, last, ended_at in rows.values_list("pk", "last", "ended_at")
    }


def read_page(stream_pk: int, after: int) -> StreamPage:
    """Return the next stored events after the event with this number, as many as one page has."""
    segments = StreamSegment.objects.filter(stream=stream_pk, last__gt=after).order_by("last")[:MAX_PAGE_SEGMENTS]
    frames, last = [], after
    for first, segment_last, text in segments.values_list("first", "last", "frames"):
        skipped = max(0, after + 1 - first)
        frames += split_frames(text)[skipped:]
        last = segment_last
    return StreamPage("".join(frames).encode(), last)


def read_all(stream_pk: int) -> list[bytes]:
    """Return all stored events."""
    texts = StreamSegment.objects.filter(stream=stream_pk).order_by("last").values_list("frames", flat=True)
    return [frame.encode() for text in texts for frame in split_frames(text)]


def split_frames(text: str) -> list[str]:
    """Return the single events of a text. JSON contains no line ends, so that an empty line is always an end."""
    return [frame + FRAME_END for frame in text.split(FRAME_END)[:-1]]


def delete_streams(streams: Iterable[int]) -> None:
    """Delete these streams with their events."""
    pks = list(streams)
    with transaction.atomic():
        StreamSegment.objects.filter(stream__in=pks).delete()
        StoredStream.objects.filter(pk__in=pks).delete()


def delete_old_streams(*, now: datetime) -> int:
    """Delete up to MAX_DELETED_PER_RUN streams whose retention is over. Return their number."""
    old = Q(ended_at__lte=now - EVENT_RETENTION) | Q(ended_at=None, created_at__lte=now - INTERRUPTED_RETENTION)
    pks = list(StoredStream.objects.filter(old).values_list("pk", flat=True)[:MAX_DELETED_PER_RUN])
    delete_streams(pks)
    return len(pks)


def _segment(events: NewEvents) -> StreamSegment:
    return StreamSegment(
        stream_id=events.stream_pk,
        first=events.first,
        last=events.first + len(events.frames) - 1,
        frames=b"".join(events.frames).decode(),
    )
