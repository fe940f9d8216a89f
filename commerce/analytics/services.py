"""Every write to the figures: opening the books, folding the ledger into them, rebuilding them from the shop's tables.

Folding and rebuilding hold the lock of the one row of Books until they commit, which also ends it when a process dies:
each step is done once or not at all. Who finds it taken has nothing to do.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.db import OperationalError, connection, models, transaction
from django.db.models import Q

from commerce.analytics import chains, folding, reconcile, triggers
from commerce.analytics import contributions as of
from commerce.analytics.models import Books, ChainShop, Entry, Figure, FirstOrder, ProductFigure, Source
from commerce.orders.models import Order, Refund
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.api import snapshots

ENTRIES_AT_ONCE = 20_000
ROWS_AT_ONCE = 5_000  # of a rebuild: SQLite's other writers wait so long
ROUND_S = 20.0  # the other tasks of a worker wait so long
RECONCILED_AFTER = 3  # o'clock
MIGRATES_WITHIN = timedelta(hours=1)
MOST_TOLD = 100
TABLES: tuple[type[models.Model], ...] = (Order, User, Review)

T = TypeVar("T")

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Lag:
    """How far the figures are behind the shop; what is read has both, so that this costs time and nothing else."""

    entries: int
    seconds: float


@transaction.atomic
def make_way(*, now: datetime) -> None:
    """Before a migration: SQLite cannot rebuild a table that a trigger of another table names."""
    if connection.vendor == "sqlite":
        triggers.remove()
        _note_migration(int(now.timestamp()) // 60)


@transaction.atomic
def open_books() -> None:
    """Makes the triggers where they are not as they should be; what was written without them is found by a rebuild.
    Does nothing where not all of the tables are there yet."""
    wanted = {Books._meta.db_table, ChainShop._meta.db_table, of.ENTRIES, *triggers.TABLES}
    if not wanted <= set(connection.introspection.table_names()):
        return
    books, _ = Books.objects.get_or_create(pk=1, defaults={"time_zone": settings.ANALYTICS_TIME_ZONE})
    is_right = triggers.are_right()
    if not is_right:
        triggers.make()
    _note_migration(0)
    if _nothing_to_count():
        for model in (Entry, Figure, ProductFigure, FirstOrder, ChainShop):
            model._default_manager.all().delete()
        Books.objects.filter(pk=1).update(is_stale=False, next_generation=None)
    elif not is_right:
        Books.objects.filter(pk=books.pk).update(is_stale=True)


def _note_migration(minute: int) -> None:
    """When it began, for rounds of other processes: in the number that a file of SQLite has for its user."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA user_version = {minute}")


def _is_migrated(now: datetime) -> bool:
    """Whether the triggers are away for a migration. One that began long ago has died."""
    if connection.vendor != "sqlite":
        return False
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA user_version")
        began = datetime.fromtimestamp(cursor.fetchone()[0] * 60, UTC)
    return now - began < MIGRATES_WITHIN


def _nothing_to_count() -> bool:
    return not any(model._default_manager.exists() for model in (Order, Refund, Review, User))


def measure_lag(*, now: datetime) -> Lag:
    """Entries that wait to be folded, and the age of the oldest of them; 0 where none wait."""
    oldest = Entry.objects.order_by("id").values_list("written_at", flat=True).first()
    seconds = max(0.0, (now - oldest).total_seconds()) if oldest else 0.0
    return Lag(entries=Entry.objects.count(), seconds=seconds)


def fold(*, now: datetime) -> int:
    """Folds all entries that are there now. Answers how many; 0 also where another process is at it."""
    folded = 0
    while count := fold_some(now=now):
        folded += count
        if count < ENTRIES_AT_ONCE:
            break
    return folded


def fold_some(*, now: datetime, most: int = ENTRIES_AT_ONCE) -> int:
    """Adds so many entries to the figures and removes them, in one transaction. 0 also where another process is at
    it."""
    return _at_one_moment(lambda books: _fold(books, now, most), busy=0)


def _at_one_moment(step: Callable[[Books], T], *, busy: T) -> T:
    """What a step answers that has the lock, and to which entries and the shop's tables are of the same moment; `busy`,
    and nothing is done, where another process has the lock, or was quicker."""
    try:
        with snapshots.write():
            books = _locked()
            return busy if books is None else step(books)
    except OperationalError as error:
        if not _is_conflict(error):
            raise
        logger.info("step_of_figures_repeated", reason=type(error.__cause__).__name__)
        return busy


def _locked() -> Books | None:
    """The row of Books, locked; None while another process has it."""
    return Books.objects.select_for_update(skip_locked=True).filter(pk=1).first()


def _fold(books: Books, now: datetime, most: int) -> int:
    ids = list(Entry.objects.order_by("id").values_list("pk", flat=True)[:most])
    if ids:
        condition, values = folding.chosen_entries(ids)
        source = f"SELECT * FROM {of.ENTRIES} WHERE {condition}"  # noqa: S608  # nosec B608
        folded = folding.Extent(entry_id=ids[-1])
        folding.add(source, values, generation=books.generation, time_zone=books.time_zone, extent=folded)
        if books.next_generation is not None:
            # What the rebuild has not come to yet, it will find in the shop's tables as it is then.
            rebuilt = "(source < %(source)s OR (source = %(source)s AND source_id <= %(rebuilt)s))"
            values |= {"source": books.rebuilt_source, "rebuilt": books.rebuilt_id}
            folding.add(
                f"{source} AND {rebuilt}",
                values,
                generation=books.next_generation,
                time_zone=books.next_time_zone,
                extent=replace(folded, order_id=_rebuilt_order(books)),
            )
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {of.ENTRIES} WHERE {condition}", values)  # noqa: S608  # nosec B608
    chains_folded_at = now if books.keeps_chains else books.chains_folded_at
    Books.objects.filter(pk=1).update(folded_at=now, chains_folded_at=chains_folded_at)
    return len(ids)


def _rebuilt_order(books: Books) -> int | None:
    """The order up to which the next generation has all; None where it has every order."""
    return books.rebuilt_id if books.rebuilt_source == Source.ORDERS else None


def needs_rebuild() -> bool:
    """Whether a rebuild has begun, or something was written past the triggers, or the time zone's setting changed."""
    books = Books.objects.get(pk=1)
    return books.is_stale or books.next_generation is not None or books.time_zone != settings.ANALYTICS_TIME_ZONE


def keep_up(*, now: datetime) -> None:
    """A round: the triggers are there, the ledger is folded, and a rebuild that is needed goes on for a while. Triggers
    of another version stay until the night: it may be at work beside this one, and `migrate` makes those of its own."""
    if not triggers.are_there():
        if _is_migrated(now):
            logger.warning("triggers_away_for_a_migration")
        else:
            logger.error("triggers_missing")
            open_books()
    until = time.monotonic() + ROUND_S
    while fold_some(now=now) == ENTRIES_AT_ONCE and time.monotonic() < until:
        pass
    while needs_rebuild() and time.monotonic() < until:
        if rebuild_some(now=now).is_busy:
            break
    while make_chain() and time.monotonic() < until:
        pass
    while clear_some() and time.monotonic() < until:
        pass


def make_chain() -> bool:
    """Makes the first orders of a chain, or takes away those of one that has other shops now. False where all are as
    they should be, or another process has the lock."""
    return _at_one_moment(_make_chain, busy=False)


def _make_chain(books: Books) -> bool:
    if books.keeps_chains:
        changed = chains.make_one(books.generation)
    else:
        changed = bool(ChainShop.objects.filter(generation=books.generation).delete()[0])
    # Written in any case where something was: a step of an older moment is refused then.
    if changed or not books.keeps_chains:
        Books.objects.filter(pk=1).update(chains_folded_at=books.folded_at)
    return changed


@transaction.atomic
def clear_some() -> int:
    """Removes some figures that no longer count. Answers how many; 0 also where another process has the lock."""
    books = _locked()
    return 0 if books is None else _clear(books)


def reconcile_nightly(*, now: datetime) -> None:
    """Once a reporting day, after its third hour, by one worker. Wrong figures are told in the log, and made anew, as
    are triggers of another version."""
    books = Books.objects.get(pk=1)
    here = now.astimezone(ZoneInfo(books.time_zone))
    due = Books.objects.filter(Q(reconciled_on=None) | Q(reconciled_on__lt=here.date()), pk=1)
    if here.hour < RECONCILED_AFTER or not due.update(reconciled_on=here.date()):
        return
    if triggers.are_there() and not triggers.are_right():
        logger.warning("triggers_of_another_version")
        open_books()
    found = reconcile.differences()
    logger.info("figures_reconciled", wrong=len(found))
    for difference in found[:MOST_TOLD]:
        logger.error("figure_wrong", difference=difference)
    if found:
        Books.objects.filter(pk=1).update(is_stale=True)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a rebuild is: in which table, up to which id of how many."""

    is_complete: bool = False
    is_busy: bool = False  # another process has the lock, or was quicker
    source: Source | None = None
    up_to: int = 0
    of: int = 0


def rebuild_some(*, now: datetime, most: int = ROWS_AT_ONCE) -> Progress:
    """One step of a rebuild; the first one begins it. Nothing is done where another process has the lock."""
    return _at_one_moment(lambda books: _rebuild(books, now, most), busy=Progress(is_busy=True))


def _is_conflict(error: OperationalError) -> bool:
    """Whether somebody else changed in between what this transaction was about to change."""
    return getattr(error.__cause__, "sqlstate", None) in ("40001", "40P01")


def _rebuild(books: Books, now: datetime, most: int) -> Progress:
    if books.next_generation is None:
        return _begin(books)
    while _fold(books, now, ENTRIES_AT_ONCE) == ENTRIES_AT_ONCE:  # all that this moment sees
        pass
    source = Source(books.rebuilt_source)
    model = TABLES[source]
    last = _slice_end(model, books.rebuilt_id, most)
    if last is not None:
        first = {"after": books.rebuilt_id, "up_to": last}
        folding.add(_slice(source), first, generation=books.next_generation, time_zone=books.next_time_zone)
        books.rebuilt_id = last
    elif source == Source.REVIEWS:
        return _complete(books)
    else:
        books.rebuilt_source, books.rebuilt_id = source + 1, 0
    books.save(update_fields=["rebuilt_source", "rebuilt_id"])
    highest = model._default_manager.order_by("-pk").values_list("pk", flat=True).first() or 0
    return Progress(source=source, up_to=last or highest, of=highest)


def _begin(books: Books) -> Progress:
    if _clear(books):
        return Progress()
    books.next_generation, books.next_time_zone = books.generation + 1, settings.ANALYTICS_TIME_ZONE
    books.rebuilt_source, books.rebuilt_id, books.is_stale = Source.ORDERS, 0, False
    books.save()
    return Progress()


def _kept(books: Books) -> list[int]:
    return [number for number in (books.generation, books.next_generation) if number is not None]


def _clear(books: Books) -> int:
    """Removes some of what earlier rebuilds made or left half done. Answers how many rows."""
    cleared = 0
    for model in (Figure, ProductFigure, FirstOrder, ChainShop):
        rows = model._default_manager.exclude(generation__in=_kept(books))
        some = list(rows.values_list("pk", flat=True)[:ENTRIES_AT_ONCE])
        cleared += model._default_manager.filter(pk__in=some).delete()[0] if some else 0
    return cleared


def _complete(books: Books) -> Progress:
    books.generation, books.time_zone = books.generation + 1, books.next_time_zone
    books.next_generation, books.next_time_zone = None, ""
    books.save()
    return Progress(is_complete=True)


def _slice_end(model: type[models.Model], after: int, most: int) -> int | None:
    """The id of the last of so many rows past an id; None past the last row."""
    table = model._meta.db_table
    rows = f"SELECT id FROM {table} WHERE id > %s ORDER BY id LIMIT %s"  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT MAX(id) FROM ({rows}) AS rows", [after, most])  # noqa: S608  # nosec B608
        found: int | None = cursor.fetchone()[0]
    return found


def _slice(source: Source) -> str:
    """What the rows past one id, up to another, count for."""

    def between(column: str) -> str:
        return f"{column} > %(after)s AND {column} <= %(up_to)s"

    if source == Source.USERS:
        return of.of_users(between("u.id"))
    if source == Source.REVIEWS:
        return of.of_reviews(between("v.id"))
    return " UNION ALL ".join([
        of.of_parents(between("r.id")),
        of.of_parts(between("r.id")),
        of.of_lines(between("r.id")),
        of.of_refunds(f"o.parent_id IS NULL AND {between('o.id')}"),
        of.of_refunds(between("o.parent_id")),
    ])  # fmt: skip
