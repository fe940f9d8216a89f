"""The queue in figures: how long it is and how old, what is decided a day, and how often reporters were right."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db.models import Count, Sum
from django.db.models.functions import TruncDate

from commerce.moderation.models import Case, Decision

Action = Decision.Action
DECIDING = (Action.ACCEPTED, Action.REJECTED, Action.APPEAL_KEPT, Action.APPEAL_OVERTURNED)


@dataclass(frozen=True, kw_only=True)
class Day:
    """What was decided on one day (UTC), and the reports that it was about."""

    day: date
    accepted: int
    rejected: int
    appeals: int
    reports_accepted: int
    reports_rejected: int

    @property
    def decisions(self) -> int:
        return self.accepted + self.rejected + self.appeals

    @property
    def agreement(self) -> float | None:
        """The share of reports that moderators agreed with; None where none was decided about."""
        decided = self.reports_accepted + self.reports_rejected
        return self.reports_accepted / decided if decided else None


@dataclass(frozen=True, kw_only=True)
class Ages:
    """How many items have waited how long, by the oldest of their reports."""

    under_an_hour: int
    under_a_day: int
    under_a_week: int
    longer: int

    @property
    def total(self) -> int:
        return self.under_an_hour + self.under_a_day + self.under_a_week + self.longer


@dataclass(frozen=True, kw_only=True)
class QueueStatistics:
    """`oldest_age`: how long the oldest report of the queue has waited; None where nothing waits. `days` are the last
    ones, today's included, oldest first."""

    ages: Ages
    appealed: int
    hidden: int
    brigaded: int
    oldest_age: timedelta | None
    days: Sequence[Day]

    @property
    def length(self) -> int:
        return self.ages.total


def queue_ages(*, now: datetime) -> Ages:
    """By the narrowest index that has the age."""
    waiting = Case.objects.waiting()
    hour, day, week = (now - timedelta(**back) for back in ({"hours": 1}, {"days": 1}, {"weeks": 1}))
    return Ages(
        under_an_hour=waiting.filter(oldest_at__gt=hour).count(),
        under_a_day=waiting.filter(oldest_at__lte=hour, oldest_at__gt=day).count(),
        under_a_week=waiting.filter(oldest_at__lte=day, oldest_at__gt=week).count(),
        longer=waiting.filter(oldest_at__lte=week).count(),
    )


def queue_statistics(*, now: datetime, days: int = 30) -> QueueStatistics:
    """As of now. Each figure is counted by an index of its own: all in one pass would read every item."""
    waiting = Case.objects.waiting()
    figures = {
        "appealed": waiting.filter(state=Case.State.APPEALED).count(),
        "hidden": waiting.exclude(hiding=Case.Hiding.NONE).count(),
        "brigaded": waiting.filter(is_brigaded=True).count(),
    }
    oldest = waiting.order_by("oldest_at", "id").values_list("oldest_at", flat=True).first()
    return QueueStatistics(
        **figures, ages=queue_ages(now=now), oldest_age=now - oldest if oldest else None, days=_days(now, days)
    )


def _days(now: datetime, count: int) -> list[Day]:
    today = now.astimezone(UTC).date()
    dates = [today - timedelta(days=back) for back in reversed(range(count))]
    midnight = datetime.combine(dates[0], datetime.min.time(), tzinfo=UTC)
    rows = (
        Decision.objects.filter(created_at__gte=midnight, action__in=DECIDING, undone_at=None)
        .order_by()
        .values("action", day=TruncDate("created_at", tzinfo=UTC))
        .annotate(decisions=Count("*"), reports=Sum("reports_count"))
    )
    found = {(row["day"], row["action"]): (row["decisions"], row["reports"]) for row in rows}

    def figure(day: date, *actions: str) -> tuple[int, int]:
        some = [found.get((day, action), (0, 0)) for action in actions]
        return sum(decisions for decisions, _ in some), sum(reports for _, reports in some)

    lines = []
    for day in dates:
        accepted, reports_accepted = figure(day, Action.ACCEPTED)
        rejected, reports_rejected = figure(day, Action.REJECTED)
        appeals, _ = figure(day, Action.APPEAL_KEPT, Action.APPEAL_OVERTURNED)
        lines.append(
            Day(
                day=day,
                accepted=accepted,
                rejected=rejected,
                appeals=appeals,
                reports_accepted=reports_accepted,
                reports_rejected=reports_rejected,
            )
        )
    return lines
