"""What moderators read: the queue, an item at a time with all that is known of it, and its figures. Nothing is written
here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Kind, Reporter
from commerce.moderation.reportable_content import TARGETS, Reportable
from commerce.moderation.trust import weight
from shared.accounts.models import User

MOST_COUNTED = 10_000
SHOWN_REPORTS = 50
ORDERS: Mapping[str, tuple[str, ...]] = {
    "newest": ("-newest_at", "-id"),
    "oldest": ("oldest_at", "id"),
    "most_reported": ("-reports_count", "-id"),
    "most_trusted": ("-weight", "-id"),
}


@dataclass(frozen=True, kw_only=True)
class QueueFilters:
    """What of the queue is asked for; what is not said filters nothing. `older_than`, `newer_than`: since the first of
    its reports. `state` is open or appealed, `hiding` a Case.Hiding."""

    kind: str | None = None
    shop_id: int | None = None
    language: str | None = None
    older_than: timedelta | None = None
    newer_than: timedelta | None = None
    hiding: str | None = None
    is_brigaded: bool | None = None
    state: str | None = None


def queue(filters: QueueFilters, *, order: str = "newest", now: datetime) -> "QuerySet[Case]":
    """The cases that wait, in one of ORDERS. Raises KeyError for another order. Every filter is a column of the index
    that gives the order, so that a page of it costs the same at a million reports."""
    equal = {
        "model_type": filters.kind,
        "shop_id": filters.shop_id,
        "language": filters.language,
        "hiding": filters.hiding,
        "is_brigaded": filters.is_brigaded,
        "state": filters.state,
    }
    cases = Case.objects.waiting().filter(**{name: value for name, value in equal.items() if value is not None})
    if filters.older_than is not None:
        cases = cases.filter(oldest_at__lte=now - filters.older_than)
    if filters.newer_than is not None:
        cases = cases.filter(oldest_at__gte=now - filters.newer_than)
    return cases.order_by(*ORDERS[order])


@dataclass(frozen=True, kw_only=True)
class QueueItem:
    """One line of the queue. `content` is as its readers see it, with its author, product and shop. `claimant` is the
    moderator who looks at it now."""

    case: Case
    content: Reportable
    claimant: User | None


def queue_page(cases: "QuerySet[Case]", *, now: datetime) -> list[QueueItem]:
    """The items of a slice of `queue`, in a number of queries that does not grow with it."""
    page = list(cases.select_related("claimed_by"))
    contents = {kind: _contents(kind, [case for case in page if case.model_type == kind]) for kind in Kind}
    return [
        QueueItem(case=case, content=contents[Kind(case.model_type)][case.model_id], claimant=case.claimant(now))
        for case in page
    ]


def queue_length(cases: "QuerySet[Case]") -> int:
    """How many there are, up to MOST_COUNTED."""
    return cases.order_by()[:MOST_COUNTED].count()


def _contents(kind: Kind, cases: Sequence[Case]) -> dict[int, Reportable]:
    rows: QuerySet[Any] = TARGETS[kind]._default_manager.select_related("user", "shop", "product__image")
    if kind == Kind.REVIEW:
        rows = rows.prefetch_related("photos")
    return rows.in_bulk([case.model_id for case in cases]) if cases else {}


@dataclass(frozen=True, kw_only=True)
class ReporterRecord:
    """How reliable a reporter has been, `weight` in thousandths as of now."""

    agreed: int
    disagreed: int
    weight: int


@dataclass(frozen=True, kw_only=True)
class ReportLine:
    """One report of a case: who, when, why; whether it counts for hiding on its own and why not is its `standing`."""

    report: AbuseReport
    reporter: ReporterRecord

    @property
    def counts(self) -> bool:
        return self.report.standing == AbuseReport.Standing.TRUSTED


@dataclass(frozen=True, kw_only=True)
class AuthorHistory:
    """What moderators know of who wrote it."""

    written: int
    taken_down: int
    warned: int
    last_taken_down_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """All that a moderator needs to decide about one item."""

    item: QueueItem
    author: AuthorHistory
    reports: Sequence[ReportLine]
    decisions: Sequence[Decision]
    appeal: Appeal | None
    undoable: Decision | None


def file_of(item: QueueItem, *, now: datetime) -> CaseFile:
    """The item with its author's history, its newest reports with their reporters' records, and what was decided
    before."""
    case = item.case
    decisions = list(case.decisions.select_related("moderator", "undone_by").order_by("-id")[:SHOWN_REPORTS])
    last = case.last_decision_id
    appeals = (
        case.appeals.select_related("author").order_by("-id")
        if case.state == Case.State.APPEALED
        else Appeal.objects.none()
    )
    return CaseFile(
        item=item,
        author=author_history(item.content.user_id),
        reports=report_lines(case),
        decisions=decisions,
        appeal=appeals.first(),
        undoable=next((made for made in decisions if made.pk == last and made.can_be_undone(now)), None),
    )


def report_lines(case: Case) -> list[ReportLine]:
    """The newest reports of a case, decided or not."""
    reports = AbuseReport.objects.of(case.model_type, case.model_id).select_related("user__reporter").order_by("-id")
    return [
        ReportLine(report=report, reporter=_record(getattr(report.user, "reporter", None)))
        for report in reports[:SHOWN_REPORTS]
    ]


def _record(reporter: Reporter | None) -> ReporterRecord:
    agreed, disagreed = (reporter.agreed, reporter.disagreed) if reporter else (0, 0)
    return ReporterRecord(agreed=agreed, disagreed=disagreed, weight=weight(agreed=agreed, disagreed=disagreed))


def author_history(author_id: int) -> AuthorHistory:
    """Reviews and questions together; undone decisions are none."""
    written = sum(model._default_manager.filter(user_id=author_id).count() for model in TARGETS.values())
    down = Case.objects.filter(author_id=author_id, state__in=[Case.State.ACCEPTED, Case.State.APPEALED]).count()
    made = Decision.objects.filter(author_id=author_id, undone_at=None).aggregate(
        warned=Count("pk", filter=Q(action=Decision.Action.WARNED)),
        last_taken_down_at=Max("created_at", filter=Q(action=Decision.Action.ACCEPTED)),
    )
    return AuthorHistory(written=written, taken_down=down, **made)
