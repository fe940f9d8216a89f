"""Reads of sales reports, which request a new computation when a report is due.

A report of few orders is computed within the request that reads it, any other by a worker. A read never waits for a
worker: until the first computation has ended it finds nothing.
"""

import contextlib
import hashlib
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.db import Error, transaction
from django.db.models import Q

from commerce.analytics.models import SalesReport
from commerce.analytics.reports.sales_computation import compute_sales, count_orders
from shared.sqlite.base import fail_if_locked

MAX_IMMEDIATE_ORDERS = 4000  # a request computes a report of as many
IMMEDIATE_LIFETIME = timedelta(seconds=10)
LIFETIME = timedelta(minutes=5)
MAX_COMPUTING_RATIO = 20  # a report lives this many times as long as its computation took
RETRY_AFTER = timedelta(minutes=40)  # longer than the time limit of the task
RETENTION = timedelta(days=30)  # of reports that nobody reads
COLUMNS = ("days", "customers", "products", "categories", "attributes")
PLATFORM_SCOPE = "platform"

logger = structlog.get_logger(__name__)


def read_sales_report(
    shop_ids: Sequence[int] | None, *, now: datetime, columns: Sequence[str] = COLUMNS
) -> SalesReport | None:
    """Return the report of these shops, or of the platform for None, with the sales of some columns.

    Return None while the first computation is pending.
    """
    if shop_ids is not None and not shop_ids:
        return _compute(SalesReport(scope="", shop_ids=[]), now)
    scope = _scope_of(shop_ids)
    unread = [name for name in COLUMNS if name not in columns]
    report = SalesReport.objects.filter(scope=scope).defer(*unread).first()
    is_known = report is not None and report.computed_at and report.time_zone == settings.ANALYTICS_TIME_ZONE
    is_due = report is None or (report.requested_at is None and _is_due(report, now))
    if is_due or not is_known:
        is_claimed = is_due and _request(scope, shop_ids, now)
        is_small = count_orders(shop_ids, limit=MAX_IMMEDIATE_ORDERS + 1) <= MAX_IMMEDIATE_ORDERS
        if is_small and (is_claimed or not is_known):
            report = _compute(SalesReport(scope=scope, shop_ids=shop_ids), now)
            if is_claimed:
                _store_unless_locked(report)
            return report
    return report if is_known else None


def compute_next_report(*, now: datetime) -> bool:
    """Compute the report of the oldest request, and return whether there was one.

    A report whose computation failed, or was killed, is tried again after RETRY_AFTER.
    """
    free = SalesReport.objects.filter(Q(started_at=None) | Q(started_at__lt=now - RETRY_AFTER), requested_at__lte=now)
    report = free.defer(*COLUMNS).order_by("requested_at", "pk").first()
    if report is None:
        return False
    if free.filter(pk=report.pk).update(started_at=now):
        try:
            _store(_compute(report, now))
        except Error as error:
            logger.warning("sales_report_failed", scope=report.scope, reason=type(error.__cause__ or error).__name__)
    return True


def delete_unread_reports(*, now: datetime) -> None:
    """Delete the reports that nobody has read for RETENTION: a read would have requested a new computation."""
    SalesReport.objects.filter(requested_at=None, computed_at__lt=now - RETENTION).delete()


def _scope_of(shop_ids: Sequence[int] | None) -> str:
    """Return the key of exactly these shops: who loses a shop reads another report at once."""
    if shop_ids is None:
        return PLATFORM_SCOPE
    ids = ",".join(map(str, sorted(shop_ids)))
    return f"shop {ids}" if len(shop_ids) == 1 else hashlib.sha256(ids.encode()).hexdigest()[:32]


def _is_due(report: SalesReport, now: datetime) -> bool:
    if report.computed_at is None or report.time_zone != settings.ANALYTICS_TIME_ZONE:
        return True
    lifetime = IMMEDIATE_LIFETIME if report.orders <= MAX_IMMEDIATE_ORDERS else LIFETIME
    return now - report.computed_at > max(lifetime, timedelta(seconds=MAX_COMPUTING_RATIO * report.seconds))


def _request(scope: str, shop_ids: Sequence[int] | None, now: datetime) -> bool:
    """Request a computation, and return whether no other request is open. A locked database never delays the read."""
    with contextlib.suppress(Error), fail_if_locked(), transaction.atomic():
        row = SalesReport(scope=scope, shop_ids=None if shop_ids is None else list(shop_ids))
        SalesReport.objects.bulk_create([row], ignore_conflicts=True)
        return bool(SalesReport.objects.filter(scope=scope, requested_at=None).update(requested_at=now))
    return False


def _compute(report: SalesReport, now: datetime) -> SalesReport:
    started = time.monotonic()
    report.time_zone = settings.ANALYTICS_TIME_ZONE
    compute_sales(report, zone=ZoneInfo(report.time_zone))
    report.computed_at, report.seconds = now, time.monotonic() - started
    return report


def _store(report: SalesReport) -> None:
    """Store the computed columns, and end the request."""
    names = ("time_zone", "orders", "computed_at", "seconds", *COLUMNS)
    values = {name: getattr(report, name) for name in names}
    SalesReport.objects.filter(scope=report.scope).update(**values, requested_at=None, started_at=None)


def _store_unless_locked(report: SalesReport) -> None:
    """Store the report, or leave it to a worker."""
    with contextlib.suppress(Error), fail_if_locked(), transaction.atomic():
        _store(report)
