"""Cases: the rows of the queue, updated together with the reports. Callers hold the lock on the content.

A report counts for automatic hiding if its reporter weighs at least 0.5, has an account of a week or more, and neither
wrote the content nor works for the shop. New accounts therefore hide nothing. Several of them within an hour are a
brigade, which moderators see.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Count, F, Max, Min, Q, Sum
from django.db.models.functions import Coalesce

from commerce.moderation.models import AbuseReport, Appeal, Case, ReportQuerySet, ReportReason
from commerce.moderation.models.reasons import DEFAULT_DUE_TIME

WAITING_STATES = (Case.State.OPEN, Case.State.APPEALED)
MIN_TRUSTED_WEIGHT = 500  # thousandths
NEW_ACCOUNT_AGE = timedelta(days=7)
MIN_BRIGADE_SIZE = 5
BRIGADE_WINDOW = timedelta(hours=1)


def find_case(model_type: str, model_id: int) -> Case | None:
    return Case.objects.filter(model_type=model_type, model_id=model_id).first()


def set_state(case: Case, state: str) -> None:
    """Set the state on the instance with what follows from it. A case that no longer waits loses its claim."""
    case.state, case.is_waiting = state, state in WAITING_STATES
    if not case.is_waiting:
        case.claimed_by = case.claimed_until = None


def add_report(case: Case, report: AbuseReport, *, now: datetime) -> Case:
    """Add one open report to the figures of a case, at the same cost for any number of reports."""
    trusted = int(report.standing == AbuseReport.Standing.TRUSTED)
    reason = report.reason
    is_gravest = reason is not None and reason.severity > case.severity
    due_at = report.created_at + (reason.due_time if reason else DEFAULT_DUE_TIME)
    Case.objects.filter(pk=case.pk).update(
        state=Case.State.OPEN,
        is_waiting=True,
        reports_count=F("reports_count") + 1,
        weight=F("weight") + report.weight,
        trusted_count=F("trusted_count") + trusted,
        newest_at=max(case.newest_at or report.created_at, report.created_at),
        oldest_at=min(case.oldest_at or report.created_at, report.created_at),
        is_brigaded=case.is_brigaded or _completes_brigade(report),
        reason=reason if is_gravest else case.reason_id,
        severity=reason.severity if reason and is_gravest else case.severity,
        due_at=min(case.due_at or due_at, due_at),
        updated_at=now,
    )
    case.refresh_from_db()
    return case


def recount(case: Case) -> None:
    """Set all figures from the open reports on the instance; the caller saves it."""
    reports = open_reports(case)
    figures = reports.aggregate(
        count=Count("pk"),
        weight=Coalesce(Sum("weight"), 0),
        trusted=Count("pk", filter=Q(standing=AbuseReport.Standing.TRUSTED)),
        newest=Max("created_at"),
        oldest=Min("created_at"),
    )
    case.reports_count, case.weight = figures["count"], figures["weight"]
    case.trusted_count = figures["trusted"]
    case.newest_at, case.oldest_at = figures["newest"], figures["oldest"]
    _set_priority(case, reports)
    if case.state == Case.State.APPEALED:
        appeal = case.appeals.get(status=Appeal.Status.OPEN)
        case.newest_at = case.oldest_at = appeal.created_at
        case.due_at = appeal.created_at + DEFAULT_DUE_TIME
    elif case.is_waiting and case.newest_at is None:  # held by a rule, and reported by nobody
        case.newest_at = case.oldest_at = case.created_at
        case.due_at = case.created_at + DEFAULT_DUE_TIME
    new_account_reports = reports.filter(standing=AbuseReport.Standing.NEW_ACCOUNT).order_by()
    case.is_brigaded = is_brigade(new_account_reports.values_list("created_at", flat=True))


def _set_priority(case: Case, reports: ReportQuerySet) -> None:
    """Set reason, severity and due time on the instance from the open reports, of which one of each reason is read."""
    case.reason, case.severity, case.due_at = None, 0, None
    oldest = dict(reports.order_by().values_list("reason").annotate(Min("created_at")))
    reasons = ReportReason.objects.in_bulk([pk for pk in oldest if pk is not None])
    for pk, created_at in oldest.items():
        reason = reasons.get(pk)
        due_at = created_at + (reason.due_time if reason else DEFAULT_DUE_TIME)
        case.due_at = min(case.due_at or due_at, due_at)
        if reason and reason.severity > case.severity:
            case.reason, case.severity = reason, reason.severity


def withdraw_case(*, model_type: str, model_id: int, now: datetime) -> None:
    """Close the case of content that its author has deleted."""
    case = find_case(model_type, model_id)
    if case is None:
        return
    open_reports(case).update(status=AbuseReport.Status.WITHDRAWN, updated_at=now)
    set_state(case, Case.State.CLOSED)
    case.hiding = Case.Hiding.NONE
    recount(case)
    case.updated_at = now
    case.save()


def open_reports(case: Case) -> ReportQuerySet:
    return AbuseReport.objects.of(case.model_type, case.model_id).filter(status=AbuseReport.Status.OPEN)


def _completes_brigade(report: AbuseReport) -> bool:
    if report.standing != AbuseReport.Standing.NEW_ACCOUNT:
        return False
    window = (report.created_at - BRIGADE_WINDOW, report.created_at + BRIGADE_WINDOW)
    others = AbuseReport.objects.of(report.model_type, report.model_id).filter(
        status=AbuseReport.Status.OPEN, standing=AbuseReport.Standing.NEW_ACCOUNT, created_at__range=window
    )
    return is_brigade(others.order_by().values_list("created_at", flat=True))


def report_standing(*, weight: int, account_age: timedelta, is_involved: bool) -> AbuseReport.Standing:
    """Return whether a report counts for automatic hiding, or the first reason why it does not."""
    if is_involved:
        return AbuseReport.Standing.INVOLVED
    if account_age < NEW_ACCOUNT_AGE:
        return AbuseReport.Standing.NEW_ACCOUNT
    return AbuseReport.Standing.TRUSTED if weight >= MIN_TRUSTED_WEIGHT else AbuseReport.Standing.UNRELIABLE


def is_brigade(reported_at: Iterable[datetime]) -> bool:
    """Return whether MIN_BRIGADE_SIZE of these reports of new accounts lie within BRIGADE_WINDOW."""
    times = sorted(reported_at)
    groups = zip(times, times[MIN_BRIGADE_SIZE - 1 :], strict=False)
    return any(last - first <= BRIGADE_WINDOW for first, last in groups)
