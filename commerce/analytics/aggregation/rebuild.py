"""Rebuild all rollups from the shop's tables, as a new generation beside the current one.

Each step reads a slice of one table, in the order of `SOURCE_TABLES`. Readers switch when the new generation is
complete; an interrupted rebuild continues where it stopped.
"""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection, models

from commerce.analytics.aggregation import rollups
from commerce.analytics.aggregation.batches import MAX_BATCH_ENTRIES, aggregate_locked
from commerce.analytics.aggregation.lock import run_exclusively
from commerce.analytics.ledger.entries import (
    select_customers,
    select_order_lines,
    select_parent_orders,
    select_refunds,
    select_reviews,
    select_shop_orders,
)
from commerce.analytics.models import (
    FirstOrder,
    LedgerSource,
    OwnerGroupShop,
    PeriodRollup,
    ProductRollup,
    RollupState,
)
from commerce.orders.models import Order
from commerce.reviews.models import Review
from shared.accounts.models import User

MAX_SLICE_ROWS = 5_000  # other writers of SQLite wait for the duration of a slice
SOURCE_TABLES: tuple[type[models.Model], ...] = (Order, User, Review)  # by LedgerSource
ROLLUP_MODELS: tuple[type[models.Model], ...] = (PeriodRollup, ProductRollup, FirstOrder, OwnerGroupShop)


@dataclass(frozen=True, kw_only=True)
class RebuildProgress:
    """The position of a rebuild: the source table, and the last id read of its highest id.

    `is_busy`: another process has the lock or changed the same rows first, and the step did nothing.
    """

    is_complete: bool = False
    is_busy: bool = False
    source: LedgerSource | None = None
    last_id: int = 0
    max_id: int = 0


def needs_rebuild() -> bool:
    """Return whether a rebuild runs, triggers were missing, or the time zone setting changed."""
    state = RollupState.objects.get(pk=1)
    return state.is_stale or state.next_generation is not None or state.time_zone != settings.ANALYTICS_TIME_ZONE


def rebuild_step(*, now: datetime, limit: int = MAX_SLICE_ROWS) -> RebuildProgress:
    """Run one step of a rebuild, which the first step starts."""
    return run_exclusively(lambda state: _step(state, now, limit), if_busy=RebuildProgress(is_busy=True))


def delete_old_generations() -> int:
    """Delete some rollups of other generations; return their number, 0 also while another process has the lock."""
    return run_exclusively(_delete_old_generations, if_busy=0)


def _step(state: RollupState, now: datetime, limit: int) -> RebuildProgress:
    if state.next_generation is None:
        return _start(state)
    while aggregate_locked(state, now, MAX_BATCH_ENTRIES) == MAX_BATCH_ENTRIES:  # all that this snapshot sees
        pass
    source = LedgerSource(state.rebuilt_source)
    model = SOURCE_TABLES[source]
    last_id = _last_slice_id(model, state.rebuilt_id, limit)
    if last_id is not None:
        bounds = {"after": state.rebuilt_id, "up_to": last_id}
        rollups.add(_slice_select(source), bounds, generation=state.next_generation, time_zone=state.next_time_zone)
        state.rebuilt_id = last_id
    elif source == LedgerSource.REVIEWS:
        return _complete(state)
    else:
        state.rebuilt_source, state.rebuilt_id = source + 1, 0
    state.save(update_fields=["rebuilt_source", "rebuilt_id"])
    max_id = model._default_manager.order_by("-pk").values_list("pk", flat=True).first() or 0
    return RebuildProgress(source=source, last_id=last_id or max_id, max_id=max_id)


def _start(state: RollupState) -> RebuildProgress:
    if _delete_old_generations(state):
        return RebuildProgress()
    state.next_generation, state.next_time_zone = state.generation + 1, settings.ANALYTICS_TIME_ZONE
    state.rebuilt_source, state.rebuilt_id, state.is_stale = LedgerSource.ORDERS, 0, False
    state.save()
    return RebuildProgress()


def _complete(state: RollupState) -> RebuildProgress:
    state.generation, state.time_zone = state.generation + 1, state.next_time_zone
    state.next_generation, state.next_time_zone = None, ""
    state.save()
    return RebuildProgress(is_complete=True)


def _delete_old_generations(state: RollupState) -> int:
    current = [number for number in (state.generation, state.next_generation) if number is not None]
    deleted = 0
    for model in ROLLUP_MODELS:
        rows = model._default_manager.exclude(generation__in=current)
        ids = list(rows.values_list("pk", flat=True)[:MAX_BATCH_ENTRIES])
        deleted += model._default_manager.filter(pk__in=ids).delete()[0] if ids else 0
    return deleted


def _last_slice_id(model: type[models.Model], after: int, limit: int) -> int | None:
    """Return the id of the last of the next `limit` rows, or None past the last row."""
    table = model._meta.db_table
    rows = f"SELECT id FROM {table} WHERE id > %s ORDER BY id LIMIT %s"  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT MAX(id) FROM ({rows}) AS rows", [after, limit])  # noqa: S608  # nosec B608
        last_id: int | None = cursor.fetchone()[0]
    return last_id


def _slice_select(source: LedgerSource) -> str:
    """Return the SELECT of the entries of the rows with ids after `%(after)s`, up to `%(up_to)s`."""

    def between(column: str) -> str:
        return f"{column} > %(after)s AND {column} <= %(up_to)s"

    if source == LedgerSource.USERS:
        return select_customers(between("u.id"))
    if source == LedgerSource.REVIEWS:
        return select_reviews(between("v.id"))
    return " UNION ALL ".join([
        select_parent_orders(between("r.id")),
        select_shop_orders(between("r.id")),
        select_order_lines(between("r.id")),
        select_refunds(f"o.parent_id IS NULL AND {between('o.id')}"),
        select_refunds(between("o.parent_id")),
    ])  # fmt: skip
