"""Ranges of reporting days. Pure functions without a database."""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from commerce.analytics.models import PeriodRollup

MIN_DATE, MAX_DATE = date(2000, 1, 1), date(2099, 12, 31)


@dataclass(frozen=True)
class DateRange:
    """A range of days, both ends included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    def previous(self) -> "DateRange":
        """Return the range of the same length that ends the day before this one."""
        return DateRange(self.first - timedelta(days=self.days), self.first - timedelta(days=1))

    def to_datetimes(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """Return the midnight of the first day, and the midnight after the last day, which is excluded."""
        return midnight(self.first, zone), midnight(self.last + timedelta(days=1), zone)

    def split_by_grain(self) -> Iterator[tuple[str, "DateRange"]]:
        """Yield the whole months, and the days before and after them: at most three ranges with their grain."""
        first_month = self.first if self.first.day == 1 else _month_end(self.first) + timedelta(days=1)
        next_day = self.last + timedelta(days=1)
        end = next_day if next_day.day == 1 else next_day.replace(day=1)  # the day after the last whole month
        if first_month >= end:
            yield PeriodRollup.Grain.DAY, self
            return
        if self.first < first_month:
            yield PeriodRollup.Grain.DAY, DateRange(self.first, first_month - timedelta(days=1))
        yield PeriodRollup.Grain.MONTH, DateRange(first_month, end - timedelta(days=1))
        if end <= self.last:
            yield PeriodRollup.Grain.DAY, DateRange(end, self.last)


def last_days(count: int, today: date) -> DateRange:
    """Return the range of `count` days that ends today."""
    return DateRange(today - timedelta(days=count - 1), today)


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return the start of a day; in a zone whose clocks skip midnight, the time at which they skip it."""
    return datetime.combine(day, time.min, tzinfo=zone)


def local_date(zone: ZoneInfo, now: datetime) -> date:
    return now.astimezone(zone).date()


def _month_end(day: date) -> date:
    return day.replace(day=monthrange(day.year, day.month)[1])
