"""Reads of the queue: its cases in order, and one case with its history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from commerce.moderation.models import AbuseReport, Appeal, Case, CaseVector, ContentKind, Decision, Reporter, Sanction
from commerce.moderation.models.reasons import DEFAULT_DUE_TIME
from commerce.moderation.reportable_content import CONTENT_MODELS, Reportable
from commerce.moderation.suggestions.reading import NO_ADVICE, CaseAdvice, count_alike, current_vectors, read_advice
from shared.accounts.models import User

MAX_COUNTED_CASES = 10_000
MAX_SHOWN_REPORTS = 50
QUEUE_ORDERS: Mapping[str, tuple[str, ...]] = {
    "newest": ("-newest_at", "-id"),
    "oldest": ("oldest_at", "id"),
    "most_reported": ("-reports_count", "-id"),
    "most_trusted": ("-weight", "-id"),
    "due": ("due_at", "id"),
    "most_severe": ("-severity", "due_at", "id"),
}


@dataclass(frozen=True, kw_only=True)
class QueueFilters:
    """Filters of the queue. None filters nothing.

    `older_than` and `newer_than` count from the first report. `state` is open or appealed, `hiding` a Case.Hiding.
    """

    model_type: str | None = None
    shop_id: int | None = None
    language: str | None = None
    older_than: timedelta | None = None
    newer_than: timedelta | None = None
    hiding: str | None = None
    is_brigaded: bool | None = None
    state: str | None = None
    reason_id: int | None = None
    severity: int | None = None
    is_overdue: bool = False
    is_escalated: bool | None = None


def filter_queue(filters: QueueFilters, *, order: str = "newest", now: datetime) -> "QuerySet[Case]":
    """Return the waiting cases in one of QUEUE_ORDERS.

    The index of each order contains every filter, so a page costs the same at a million reports.
    """
    others = ("older_than", "newer_than", "is_overdue")  # all else are columns of the case
    equal = {name: value for name, value in vars(filters).items() if name not in others and value is not None}
    cases = Case.objects.waiting().filter(**equal)
    if filters.older_than is not None:
        cases = cases.filter(oldest_at__lte=now - filters.older_than)
    if filters.newer_than is not None:
        cases = cases.filter(oldest_at__gte=now - filters.newer_than)
    if filters.is_overdue:
        opened_by_former_version = Q(due_at=None, oldest_at__lte=now - DEFAULT_DUE_TIME)
        cases = cases.filter(Q(due_at__lte=now) | opened_by_former_version)
    return cases.order_by(*QUEUE_ORDERS[order])


@dataclass(frozen=True, kw_only=True)
class QueueItem:
    """A case with its content, its author, product and shop, and the moderator who has it open now (`claimant`).

    `alike` counts the waiting cases with nearly the same content, this one included; 0 if there is no other.
    """

    case: Case
    content: Reportable
    claimant: User | None
    read_at: datetime
    alike: int = 0
    vector: CaseVector | None = None


def queue_page(cases: "QuerySet[Case]", *, now: datetime) -> list[QueueItem]:
    """Return the items of a slice of `filter_queue`, in a fixed number of queries."""
    page = list(cases.select_related("claimed_by", "reason"))
    vectors = current_vectors(page)
    alike = count_alike(vectors)
    contents = {kind: _contents(kind, [case for case in page if case.model_type == kind]) for kind in ContentKind}
    return [
        QueueItem(
            case=case,
            content=contents[ContentKind(case.model_type)][case.model_id],
            claimant=case.claimant(now),
            read_at=now,
            alike=alike.get(case.pk, 0),
            vector=vectors.get(case.pk),
        )
        for case in page
    ]


def count_cases(cases: "QuerySet[Case]") -> int:
    """Return the number of cases, at most MAX_COUNTED_CASES."""
    return cases.order_by()[:MAX_COUNTED_CASES].count()


def _contents(kind: ContentKind, cases: Sequence[Case]) -> dict[int, Reportable]:
    rows: QuerySet[Any] = CONTENT_MODELS[kind]._default_manager.select_related("user", "shop", "product__image")
    if kind == ContentKind.REVIEW:
        rows = rows.prefetch_related("photos")
    return rows.in_bulk([case.model_id for case in cases]) if cases else {}


@dataclass(frozen=True, kw_only=True)
class CaseReport:
    """A report of a case with the record of its reporter."""

    report: AbuseReport
    reporter: Reporter

    @property
    def counts(self) -> bool:
        return self.report.standing == AbuseReport.Standing.TRUSTED


@dataclass(frozen=True, kw_only=True)
class AuthorHistory:
    """Counts of an author's reviews and questions and of the decisions about them."""

    written: int
    taken_down: int
    warned: int
    last_taken_down_at: datetime | None
    sanctions: Sequence[Sanction] = ()


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """A case with everything that a moderator needs to decide about it."""

    item: QueueItem
    author: AuthorHistory
    reports: Sequence[CaseReport]
    decisions: Sequence[Decision]
    appeal: Appeal | None
    undoable: Decision | None
    advice: CaseAdvice = NO_ADVICE

    @property
    def counted(self) -> list[CaseReport]:
        """Return the reports that count for automatic hiding."""
        return [line for line in self.reports if line.counts]


def read_case_file(item: QueueItem, *, now: datetime) -> CaseFile:
    """Return an item with its author's history, newest reports and previous decisions."""
    case = item.case
    decisions = list(case.decisions.select_related("moderator", "undone_by").order_by("-id")[:MAX_SHOWN_REPORTS])
    last = case.last_decision_id
    appeals = (
        case.appeals.select_related("author").order_by("-id")
        if case.state == Case.State.APPEALED
        else Appeal.objects.none()
    )
    reports = case_reports(case)
    return CaseFile(
        item=item,
        author=author_history(item.content.user_id, now=now),
        reports=reports,
        decisions=decisions,
        appeal=appeals.first(),
        undoable=next((each for each in decisions if each.pk == last and each.can_be_undone(now)), None),
        advice=read_advice(case, item.content, _open_messages(reports), item.vector, has_alike=item.alike > 1),
    )


def case_reports(case: Case) -> list[CaseReport]:
    """Return the newest MAX_SHOWN_REPORTS reports of a case, decided or not."""
    reports = (
        AbuseReport.objects.of(case.model_type, case.model_id)
        .select_related("user__reporter", "reason")
        .order_by("-id")
    )
    return [
        CaseReport(report=report, reporter=getattr(report.user, "reporter", None) or Reporter(user=report.user))
        for report in reports[:MAX_SHOWN_REPORTS]
    ]


def _open_messages(reports: Sequence[CaseReport]) -> list[str]:
    return [line.report.message for line in reports if line.report.status == AbuseReport.Status.OPEN]


def author_history(author_id: int, *, now: datetime) -> AuthorHistory:
    """Return the counts of reviews and questions together, without undone decisions."""
    written = sum(model._default_manager.filter(user_id=author_id).count() for model in CONTENT_MODELS.values())
    is_down = [Case.State.ACCEPTED, Case.State.APPEALED]
    down = Case.objects.filter(author_id=author_id, state__in=is_down).count()
    made = Decision.objects.filter(author_id=author_id, undone_at=None).aggregate(
        warned=Count("pk", filter=Q(action=Decision.Action.WARNED)),
        last_taken_down_at=Max("created_at", filter=Q(action=Decision.Action.ACCEPTED, case__state__in=is_down)),
    )
    in_force = list(Sanction.objects.filter(user_id=author_id).in_force(now).order_by("-id")[:MAX_SHOWN_REPORTS])
    return AuthorHistory(written=written, taken_down=down, sanctions=in_force, **made)
