"""Aggregate the ledger: add a batch of entries to the rollups and delete it, in one transaction."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from commerce.analytics.aggregation import rollups
from commerce.analytics.aggregation.id_lists import id_condition
from commerce.analytics.aggregation.lock import run_exclusively
from commerce.analytics.ledger.entries import LEDGER
from commerce.analytics.models import LedgerEntry, LedgerSource, RollupState

MAX_BATCH_ENTRIES = 20_000


@dataclass(frozen=True, kw_only=True)
class LedgerLag:
    """The number of entries that wait for aggregation, and the age in seconds of the oldest (0.0 without entries).

    Reads include waiting entries, so a lag makes them slower but never wrong.
    """

    entries: int
    seconds: float


def measure_lag(*, now: datetime) -> LedgerLag:
    """Return how far aggregation is behind the ledger."""
    oldest = LedgerEntry.objects.order_by("id").values_list("written_at", flat=True).first()
    seconds = max(0.0, (now - oldest).total_seconds()) if oldest else 0.0
    return LedgerLag(entries=LedgerEntry.objects.count(), seconds=seconds)


def aggregate_ledger(*, now: datetime) -> int:
    """Aggregate all entries and return their number; 0 also while another process has the lock."""
    aggregated = 0
    while count := aggregate_batch(now=now):
        aggregated += count
        if count < MAX_BATCH_ENTRIES:
            break
    return aggregated


def aggregate_batch(*, now: datetime, limit: int = MAX_BATCH_ENTRIES) -> int:
    """Aggregate up to `limit` entries and return their number; 0 also while another process has the lock."""
    return run_exclusively(lambda state: aggregate_locked(state, now, limit), if_busy=0)


def aggregate_locked(state: RollupState, now: datetime, limit: int) -> int:
    """Aggregate up to `limit` entries and return their number; the caller holds the lock."""
    ids = list(LedgerEntry.objects.order_by("id").values_list("pk", flat=True)[:limit])
    if ids:
        condition, values = id_condition(ids)
        _add_to_generations(state, condition, values, last_entry_id=ids[-1])
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {LEDGER} WHERE {condition}", values)  # noqa: S608  # nosec B608
    owner_groups_at = now if state.has_current_owner_groups else state.owner_groups_aggregated_at
    RollupState.objects.filter(pk=1).update(aggregated_at=now, owner_groups_aggregated_at=owner_groups_at)
    return len(ids)


def _add_to_generations(state: RollupState, condition: str, values: dict[str, Any], *, last_entry_id: int) -> None:
    """Add the entries to the current generation, and to the next one what its rebuild has passed already.

    The rebuild will read the remaining rows from the shop's tables, as they are by then.
    """
    source = f"SELECT * FROM {LEDGER} WHERE {condition}"  # noqa: S608  # nosec B608
    rollups.add(source, values, generation=state.generation, time_zone=state.time_zone, last_entry_id=last_entry_id)
    if state.next_generation is not None:
        is_rebuilt = "(source < %(source)s OR (source = %(source)s AND source_id <= %(rebuilt_id)s))"
        values = values | {"source": state.rebuilt_source, "rebuilt_id": state.rebuilt_id}
        rollups.add(
            f"{source} AND {is_rebuilt}",
            values,
            generation=state.next_generation,
            time_zone=state.next_time_zone,
            last_entry_id=last_entry_id,
            last_order_id=state.rebuilt_id if state.rebuilt_source == LedgerSource.ORDERS else None,
        )
