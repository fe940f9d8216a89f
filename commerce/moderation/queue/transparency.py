"""Figures of a transparency report: decisions, notices, reasons, sanctions and appeals over a period."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import Count, Q, Sum

from commerce.moderation.models import Appeal, Decision, ReportReason
from commerce.moderation.queue.statements import (
    RESTRICTIONS,
    ReportingPeriod,
    category_of,
    find_first_notice,
    find_gravest_reason,
    restricting_sanctions,
    standing_decisions,
)

MAX_SUMMARIZED = 10_000  # newest decisions whose reports are read
Action = Decision.Action
VERDICTS = (Action.ACCEPTED, Action.REJECTED)


@dataclass(frozen=True, kw_only=True)
class ReasonCount:
    reason: ReportReason | None
    category: str
    statements: int
    notices: int


@dataclass(frozen=True, kw_only=True)
class TransparencyReport:
    """Figures of a period. The median and the reasons are of the newest MAX_SUMMARIZED decisions, if `is_partial`.

    `actions` have the `decisions` of each `action` with their `notices_count`; `automated` of them were made by a rule.
    """

    actions: Sequence[Mapping[str, Any]]
    sanctions: Mapping[str, int]
    reasons: Sequence[ReasonCount]
    appeals_filed: int
    median_time: timedelta | None
    is_partial: bool

    def count(self, *actions: str) -> int:
        return sum(each["decisions"] for each in self.actions if each["action"] in actions)

    @property
    def statements(self) -> int:
        return self.count(*RESTRICTIONS) + sum(self.sanctions.values())

    @property
    def notices(self) -> int:
        """Return the number of notices that a verdict settled."""
        return sum(each["notices_count"] for each in self.actions if each["action"] in VERDICTS)

    @property
    def automated(self) -> int:
        return sum(each["automated"] for each in self.actions)


def transparency_report(period: ReportingPeriod) -> TransparencyReport:
    """Return the figures of a period, without undone decisions."""
    decisions = standing_decisions(period)
    actions = decisions.order_by("action").values("action")
    actions = actions.annotate(
        decisions=Count("*"), automated=Count("pk", filter=Q(moderator=None)), notices_count=Sum("reports_count")
    )
    sanctions = dict(restricting_sanctions(period).order_by().values_list("kind").annotate(Count("pk")))
    begin, end = period.times
    some = decisions.filter(action__in={*RESTRICTIONS, *VERDICTS}).order_by("-created_at")
    newest = list(some.values_list("action", "created_at", "reports")[: MAX_SUMMARIZED + 1])
    is_partial = len(newest) > MAX_SUMMARIZED
    return TransparencyReport(
        actions=list(actions),
        sanctions=sanctions,
        reasons=_count_reasons([row[2] for row in newest[:MAX_SUMMARIZED] if row[0] in RESTRICTIONS]),
        appeals_filed=Appeal.objects.filter(created_at__gte=begin, created_at__lt=end).count(),
        median_time=_median_time(row[1:] for row in newest[:MAX_SUMMARIZED] if row[0] in VERDICTS),
        is_partial=is_partial,
    )


def _count_reasons(reports: Iterable[Sequence[Mapping[str, Any]]]) -> list[ReasonCount]:
    """Return the statements by their most severe reason, the most frequent first."""
    reasons = ReportReason.objects.in_bulk()
    notices = defaultdict[ReportReason | None, list[int]](list)
    for records in reports:
        notices[find_gravest_reason(records, reasons)].append(len(records))
    counts = [
        ReasonCount(reason=reason, category=category_of(reason), statements=len(each), notices=sum(each))
        for reason, each in notices.items()
    ]
    return sorted(counts, key=lambda each: -each.statements)


def _median_time(decided: Iterable[tuple[datetime, Sequence[Mapping[str, Any]]]]) -> timedelta | None:
    """Return the median time from the first notice to the verdict, or None if there were no notices."""
    waited = [(at - first).total_seconds() for at, records in decided if (first := find_first_notice(records))]
    return timedelta(seconds=median(waited)) if waited else None
