"""Maintenance of analytics: the ledger's triggers, the periodic aggregation, reconciliation, and sales reports."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from commerce.analytics.aggregation.batches import MAX_BATCH_ENTRIES, aggregate_batch
from commerce.analytics.aggregation.owner_groups import update_next_group
from commerce.analytics.aggregation.rebuild import (
    ROLLUP_MODELS,
    SOURCE_TABLES,
    delete_old_generations,
    needs_rebuild,
    rebuild_step,
)
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.ledger import triggers
from commerce.analytics.models import LedgerEntry, OwnerGroupShop, RollupState
from commerce.analytics.reports.sales_reports import compute_next_report, delete_unread_reports
from commerce.orders.models import Refund

MAX_RUN_SECONDS = 20.0  # other tasks of the worker wait for the duration of a run
RECONCILE_HOUR = 3
MIGRATION_TIMEOUT = timedelta(hours=1)
MAX_LOGGED_DIFFERENCES = 100

logger = structlog.get_logger(__name__)


@transaction.atomic
def remove_triggers_for_migration(*, now: datetime) -> None:
    """Remove the triggers on SQLite, which cannot rebuild a table that another table's trigger names."""
    if connection.vendor == "sqlite":
        triggers.remove()
        _record_migration_start(int(now.timestamp()) // 60)


@transaction.atomic
def ensure_triggers() -> None:
    """Install the triggers of this release, and schedule a rebuild if rows may have been written without them.

    Do nothing while tables are missing, as between the migrations of a new database.
    """
    tables = {RollupState._meta.db_table, OwnerGroupShop._meta.db_table, LedgerEntry._meta.db_table, *triggers.TABLES}
    if not tables <= set(connection.introspection.table_names()):
        return
    state, _ = RollupState.objects.get_or_create(pk=1, defaults={"time_zone": settings.ANALYTICS_TIME_ZONE})
    were_current = triggers.are_current()
    if not were_current:
        triggers.install()
    _record_migration_start(0)
    if _is_shop_empty():
        for model in ROLLUP_MODELS:
            model._default_manager.all().delete()
        LedgerEntry.objects.all().delete()
        RollupState.objects.filter(pk=1).update(is_stale=False, next_generation=None)
    elif not were_current:
        RollupState.objects.filter(pk=state.pk).update(is_stale=True)


def _is_shop_empty() -> bool:
    return not (Refund.objects.exists() or any(model._default_manager.exists() for model in SOURCE_TABLES))


def _record_migration_start(minute: int) -> None:
    """Store the minute in SQLite's `user_version`, where other processes see it; 0 ends the migration."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA user_version = {minute}")


def _is_migrating(now: datetime) -> bool:
    """Return whether a migration has removed the triggers; one older than MIGRATION_TIMEOUT has died."""
    if connection.vendor != "sqlite":
        return False
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA user_version")
        started_at = datetime.fromtimestamp(cursor.fetchone()[0] * 60, UTC)
    return now - started_at < MIGRATION_TIMEOUT


def run_maintenance(*, now: datetime) -> None:
    """Check the triggers, aggregate the ledger, and continue a rebuild, for MAX_RUN_SECONDS at most.

    Triggers of another release stay until `migrate` or the night, since that release may serve beside this one.
    """
    if not triggers.are_installed():
        if _is_migrating(now):
            logger.warning("triggers_removed_for_migration")
        else:
            logger.error("triggers_missing")
            ensure_triggers()
    deadline = time.monotonic() + MAX_RUN_SECONDS
    while aggregate_batch(now=now) == MAX_BATCH_ENTRIES and time.monotonic() < deadline:
        pass
    while needs_rebuild() and time.monotonic() < deadline:
        if rebuild_step(now=now).is_busy:
            break
    while update_next_group() and time.monotonic() < deadline:
        pass
    while delete_old_generations() and time.monotonic() < deadline:
        pass


def reconcile_nightly(*, now: datetime) -> None:
    """Reconcile once a reporting day, after RECONCILE_HOUR, in one worker.

    Wrong rollups are logged and rebuilt; triggers of another release are replaced.
    """
    state = RollupState.objects.get(pk=1)
    local_now = now.astimezone(ZoneInfo(state.time_zone))
    due = RollupState.objects.filter(Q(reconciled_on=None) | Q(reconciled_on__lt=local_now.date()), pk=1)
    if local_now.hour < RECONCILE_HOUR or not due.update(reconciled_on=local_now.date()):
        return
    delete_unread_reports(now=now)
    if triggers.are_installed() and not triggers.are_current():
        logger.warning("triggers_outdated")
        ensure_triggers()
    differences = find_differences()
    logger.info("rollups_reconciled", wrong=len(differences))
    for difference in differences[:MAX_LOGGED_DIFFERENCES]:
        logger.error("rollup_mismatched", difference=difference)
    if differences:
        RollupState.objects.filter(pk=1).update(is_stale=True)


def compute_requested_reports() -> None:
    """Compute the sales reports that reads have requested, for MAX_RUN_SECONDS at most, and delete those unread."""
    deadline = time.monotonic() + MAX_RUN_SECONDS
    while compute_next_report(now=timezone.now()) and time.monotonic() < deadline:
        pass
