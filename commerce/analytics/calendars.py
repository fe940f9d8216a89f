"""Reporting days and months. Pure: it knows no database."""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from commerce.analytics.models import Figure

ALL_TIME = date.min  # on which the figures of all time start


@dataclass(frozen=True)
class Span:
    """Days, both included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    def before(self) -> "Span":
        """The same number of days that end where these begin."""
        return Span(self.first - timedelta(days=self.days), self.first - timedelta(days=1))

    def moments(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """From the first day's midnight up to, and not including, that after the last one."""
        return midnight(self.first, zone), midnight(self.last + timedelta(days=1), zone)

    def pieces(self) -> Iterator[tuple[str, "Span"]]:
        """The same days as whole months, and the days around them: at most three pieces, by their grain."""
        first_month = self.first if self.first.day == 1 else _month_end(self.first) + timedelta(days=1)
        next_day = self.last + timedelta(days=1)
        end = next_day if next_day.day == 1 else next_day.replace(day=1)  # the day after the last whole month
        if first_month >= end:
            yield Figure.Grain.DAY, self
            return
        if self.first < first_month:
            yield Figure.Grain.DAY, Span(self.first, first_month - timedelta(days=1))
        yield Figure.Grain.MONTH, Span(first_month, end - timedelta(days=1))
        if end <= self.last:
            yield Figure.Grain.DAY, Span(end, self.last)


def last_days(count: int, today: date) -> Span:
    """So many days, of which today is the last."""
    return Span(today - timedelta(days=count - 1), today)


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """When a day begins; in a zone whose clocks skip midnight, the moment they skip it."""
    return datetime.combine(day, time.min, tzinfo=zone)


def today_in(zone: ZoneInfo, now: datetime) -> date:
    return now.astimezone(zone).date()


def _month_end(day: date) -> date:
    return day.replace(day=monthrange(day.year, day.month)[1])
