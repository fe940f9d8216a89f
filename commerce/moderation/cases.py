"""The rows of the queue, kept in step with the reports. Whoever calls these holds the lock on the content."""

from datetime import datetime

from django.db.models import Count, F, Max, Min, Q, Sum
from django.db.models.functions import Coalesce

from commerce.moderation.models import AbuseReport, Appeal, Case, ReportQuerySet
from commerce.moderation.trust import BRIGADE_WITHIN, is_brigade

WAITING = (Case.State.OPEN, Case.State.APPEALED)


def find_case(model_type: str, model_id: int) -> Case | None:
    return Case.objects.filter(model_type=model_type, model_id=model_id).first()


def set_state(case: Case, state: str) -> None:
    """Whether it waits follows from its state; nobody looks at what waits no longer."""
    case.state, case.is_waiting = state, state in WAITING
    if not case.is_waiting:
        case.claimed_by = case.claimed_until = None


def count_report(case: Case, report: AbuseReport, *, now: datetime) -> Case:
    """One more open report: only what it adds, whatever number there is."""
    trusted = int(report.standing == AbuseReport.Standing.TRUSTED)
    Case.objects.filter(pk=case.pk).update(
        state=Case.State.OPEN,
        is_waiting=True,
        reports_count=F("reports_count") + 1,
        weight=F("weight") + report.weight,
        trusted_count=F("trusted_count") + trusted,
        newest_at=max(case.newest_at or report.created_at, report.created_at),
        oldest_at=min(case.oldest_at or report.created_at, report.created_at),
        is_brigaded=case.is_brigaded or _makes_a_brigade(report),
        updated_at=now,
    )
    case.refresh_from_db()
    return case


def recount(case: Case) -> None:
    """All figures anew from the open reports, on the instance; the caller saves it."""
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
    if case.state == Case.State.APPEALED:
        appeal = case.appeals.get(status=Appeal.Status.OPEN)
        case.newest_at = case.oldest_at = appeal.created_at
    by_new = reports.filter(standing=AbuseReport.Standing.NEW_ACCOUNT).order_by()
    case.is_brigaded = is_brigade(by_new.values_list("created_at", flat=True))


def withdraw_case(*, model_type: str, model_id: int, now: datetime) -> None:
    """The author took the content back: nothing is left to decide."""
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


def _makes_a_brigade(report: AbuseReport) -> bool:
    if report.standing != AbuseReport.Standing.NEW_ACCOUNT:
        return False
    around = (report.created_at - BRIGADE_WITHIN, report.created_at + BRIGADE_WITHIN)
    others = AbuseReport.objects.of(report.model_type, report.model_id).filter(
        status=AbuseReport.Status.OPEN, standing=AbuseReport.Standing.NEW_ACCOUNT, created_at__range=around
    )
    return is_brigade(others.order_by().values_list("created_at", flat=True))
