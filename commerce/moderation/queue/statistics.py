"""Statistics of the queue: its length and age, the decisions of each day, and the accuracy of reporters."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncDate

from commerce.moderation.models import Case, Decision

Action = Decision.Action
COUNTED_ACTIONS = (Action.ACCEPTED, Action.REJECTED, Action.APPEAL_KEPT, Action.APPEAL_OVERTURNED)


@dataclass(frozen=True, kw_only=True)
class DayStatistics:
    """The decisions of one day (UTC) and their reports."""

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
        """Return the share of reports that moderators agreed with, or None without any."""
        decided = self.reports_accepted + self.reports_rejected
        return self.reports_accepted / decided if decided else None


@dataclass(frozen=True, kw_only=True)
class QueueStatistics:
    """Figures of the queue now and of the last days.

    `ages` count the cases whose oldest report is under an hour, under a day, under a week and a week old or more.
    `oldest_age` is the age of the oldest report, None for an empty queue. `days` include today, oldest first.
    """

    ages: Sequence[int]
    appealed: int
    hidden: int
    brigaded: int
    oldest_age: timedelta | None
    days: Sequence[DayStatistics]

    @property
    def length(self) -> int:
        return sum(self.ages)


def queue_statistics(*, now: datetime, days: int = 30) -> QueueStatistics:
    """Return the current statistics. Each figure has an index of its own; one pass would read every case."""
    waiting = Case.objects.waiting()
    figures = {
        "appealed": waiting.filter(state=Case.State.APPEALED).count(),
        "hidden": waiting.exclude(hiding=Case.Hiding.NONE).count(),
        "brigaded": waiting.filter(is_brigaded=True).count(),
    }
    oldest = waiting.order_by("oldest_at", "id").values_list("oldest_at", flat=True).first()
    hour, day, week = (now - timedelta(**back) for back in ({"hours": 1}, {"days": 1}, {"weeks": 1}))
    ages = [Q(oldest_at__gt=hour), Q(oldest_at__lte=hour, oldest_at__gt=day)]
    ages += [Q(oldest_at__lte=day, oldest_at__gt=week), Q(oldest_at__lte=week)]
    return QueueStatistics(
        **figures,
        ages=[waiting.filter(age).count() for age in ages],
        oldest_age=now - oldest if oldest else None,
        days=_days(now, days),
    )


def _days(now: datetime, count: int) -> list[DayStatistics]:
    today = now.astimezone(UTC).date()
    dates = [today - timedelta(days=back) for back in reversed(range(count))]
    midnight = datetime.combine(dates[0], datetime.min.time(), tzinfo=UTC)
    rows = (
        Decision.objects.filter(created_at__gte=midnight, action__in=COUNTED_ACTIONS, undone_at=None)
        .order_by()
        .values("action", day=TruncDate("created_at", tzinfo=UTC))
        .annotate(decisions=Count("*"), reports=Sum("reports_count"))
    )
    found = {(row["day"], row["action"]): (row["decisions"], row["reports"]) for row in rows}

    def figure(day: date, *actions: str) -> tuple[int, int]:
        some = [found.get((day, action), (0, 0)) for action in actions]
        return sum(decisions for decisions, _ in some), sum(reports for _, reports in some)

    statistics = []
    for day in dates:
        accepted, reports_accepted = figure(day, Action.ACCEPTED)
        rejected, reports_rejected = figure(day, Action.REJECTED)
        appeals, _ = figure(day, Action.APPEAL_KEPT, Action.APPEAL_OVERTURNED)
        statistics.append(
            DayStatistics(
                day=day,
                accepted=accepted,
                rejected=rejected,
                appeals=appeals,
                reports_accepted=reports_accepted,
                reports_rejected=reports_rejected,
            )
        )
    return statistics
