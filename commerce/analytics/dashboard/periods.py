"""Periods of the dashboard: presets, and the days that each chart column covers. Pure functions."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from django.utils.formats import date_format
from django.utils.translation import gettext as _

from commerce.analytics.models import PeriodRollup
from commerce.analytics.reports.date_ranges import MIN_DATE, DateRange, last_days
from commerce.analytics.reports.results import SeriesPoint

# Longer ranges have columns of the next unit.
MAX_DAY_COLUMN_DAYS, MAX_WEEK_COLUMN_DAYS, MAX_MONTH_COLUMNS = 45, 190, 60
# The first day of the next column, by unit.
NEXT_FIRST_DAY: Mapping[str, Callable[[date], date]] = {
    "day": lambda day: day + timedelta(days=1),
    "week": lambda day: day + timedelta(days=7),
    "month": lambda day: date(day.year + day.month // 12, day.month % 12 + 1, 1),
    "year": lambda day: date(day.year + 1, 1, 1),
}


@dataclass(frozen=True, kw_only=True)
class ColumnSums:
    """The sums of one chart column; the placed revenue is None while it is pending."""

    date_range: DateRange
    revenue: int = 0
    refunds: int = 0
    orders: int = 0
    placed_revenue: int | None = None


@dataclass(frozen=True, kw_only=True)
class ChartColumns:
    """The days of each column, its unit ("day", "week", ...), and the grain of the rollups to read for it."""

    unit: str
    grain: str
    ranges: Sequence[DateRange]


def presets(today: date) -> list[tuple[str, DateRange]]:
    """Return the periods that one click selects."""
    return [
        (_("Today"), DateRange(today, today)),
        (_("7 days"), last_days(7, today)),
        (_("30 days"), default_range(today)),
        (_("90 days"), last_days(90, today)),
        (_("This year"), DateRange(today.replace(month=1, day=1), today)),
        (_("12 months"), last_days(365, today)),
        (_("All time"), DateRange(MIN_DATE, today)),
    ]


def default_range(today: date) -> DateRange:
    return last_days(30, today)


def comparison_range(date_range: DateRange) -> DateRange | None:
    """Return the previous range, or None where it would begin before MIN_DATE."""
    previous = date_range.previous()
    return previous if previous.first >= MIN_DATE else None


def split_into_columns(date_range: DateRange, unit: str = "") -> ChartColumns:
    """Return columns of days, of weeks from the first day on, of months or years: as many as a chart can show.

    With a `unit`, return columns of that unit, however many.
    """
    unit = unit or _unit_for(date_range)
    grain = PeriodRollup.Grain.DAY if unit in ("day", "week") else PeriodRollup.Grain.MONTH
    return ChartColumns(unit=unit, grain=grain, ranges=_split(date_range, NEXT_FIRST_DAY[unit]))


def _unit_for(date_range: DateRange) -> str:
    if date_range.days <= MAX_DAY_COLUMN_DAYS:
        return "day"
    if date_range.days <= MAX_WEEK_COLUMN_DAYS:
        return "week"
    return "month" if len(_split(date_range, NEXT_FIRST_DAY["month"])) <= MAX_MONTH_COLUMNS else "year"


def sum_by_column(
    points: Sequence[SeriesPoint], columns: ChartColumns, placed_by_day: Mapping[date, int] | None = None
) -> list[ColumnSums]:
    """Return the sums of each column; a month that begins before the first column counts in the first."""
    first_days = [date_range.first for date_range in columns.ranges]
    placed = [0 for _ in first_days]
    for day, added in (placed_by_day or {}).items():
        if first_days[0] <= day <= columns.ranges[-1].last:
            placed[bisect_right(first_days, day) - 1] += added
    sums = [[0, 0, 0] for _ in first_days]
    for point in points:
        column = sums[max(bisect_right(first_days, point.starts_on) - 1, 0)]
        for index, added in enumerate((point.revenue, point.refunds, point.orders)):
            column[index] += added
    return [
        ColumnSums(
            date_range=date_range,
            revenue=revenue,
            refunds=refunds,
            orders=orders,
            placed_revenue=None if placed_by_day is None else more,
        )
        for date_range, (revenue, refunds, orders), more in zip(columns.ranges, sums, placed, strict=True)
    ]


def trim_empty_start(points: Sequence[SeriesPoint], date_range: DateRange) -> DateRange | None:
    """Return the range from the first point with any sum on, or None without one."""
    for point in points:
        if point.revenue or point.refunds or point.orders:
            return DateRange(max(point.starts_on, date_range.first), date_range.last)
    return None


def axis_label(date_range: DateRange, unit: str) -> str:
    """Return a short label: "3 Mar" for a day or for the week from then on, "Mar \u201926", "2026"."""
    if unit == "year":
        return str(date_range.first.year)
    if unit == "month":
        return date_format(date_range.first, "M \u2019y")
    return date_format(date_range.first, _("j M"))


def range_label(date_range: DateRange) -> str:
    """Return a full label: "3 Mar 2026", or "3 Mar 2026 to 9 Mar 2026"."""
    first, last = day_label(date_range.first), day_label(date_range.last)
    return first if first == last else _("%(first)s to %(last)s") % {"first": first, "last": last}


def day_label(day: date) -> str:
    return date_format(day, _("j M Y"))


def _split(date_range: DateRange, next_first_day: Callable[[date], date]) -> list[DateRange]:
    ranges, first = [], date_range.first
    while first <= date_range.last:
        following = next_first_day(first)
        ranges.append(DateRange(first, min(following - timedelta(days=1), date_range.last)))
        first = following
    return ranges
