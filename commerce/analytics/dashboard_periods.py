"""The days of the dashboard: which may be chosen at once, and how many one column of a chart stands for. Pure."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Protocol

from commerce.analytics.calendars import Span, last_days
from commerce.analytics.filters import FIRST_DAY
from commerce.analytics.models import Figure

MOST_DAYS, MOST_WEEK_DAYS, MOST_MONTHS = 45, 190, 60  # of columns of a day, a week, a month; then they are years
# When the next column begins, by its unit.
NEXT_FIRST: Mapping[str, Callable[[date], date]] = {
    "day": lambda day: day + timedelta(days=1),
    "week": lambda day: day + timedelta(days=7),
    "month": lambda day: date(day.year + day.month // 12, day.month % 12 + 1, 1),
    "year": lambda day: date(day.year + 1, 1, 1),
}


class Counted(Protocol):
    """Figures of the day or month that begins on `starts_on`."""

    @property
    def starts_on(self) -> date: ...

    @property
    def revenue(self) -> int: ...

    @property
    def refunds(self) -> int: ...

    @property
    def orders(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Sold:
    """What one column shows."""

    span: Span
    revenue: int = 0
    refunds: int = 0
    orders: int = 0


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The days of each column, and of what grain the figures are to be read for them. `unit` names one: day, week."""

    unit: str
    grain: str
    spans: Sequence[Span]


def presets(today: date) -> list[tuple[str, Span]]:
    """Periods that are chosen by a click."""
    return [
        ("Today", Span(today, today)),
        ("7 days", last_days(7, today)),
        ("30 days", default_span(today)),
        ("90 days", last_days(90, today)),
        ("This year", Span(today.replace(month=1, day=1), today)),
        ("12 months", last_days(365, today)),
        ("All time", Span(FIRST_DAY, today)),
    ]


def default_span(today: date) -> Span:
    return last_days(30, today)


def before(span: Span) -> Span | None:
    """The period that this one is compared with; None where there was no shop yet."""
    earlier = span.before()
    return earlier if earlier.first >= FIRST_DAY else None


def columns_of(span: Span, unit: str = "") -> Columns:
    """As many columns as can be told apart: of days, of weeks that begin with the first day, of months, of years. Of a
    named unit, however many they are."""
    unit = unit or _unit_for(span)
    grain = Figure.Grain.DAY if unit in ("day", "week") else Figure.Grain.MONTH
    return Columns(unit=unit, grain=grain, spans=_split(span, NEXT_FIRST[unit]))


def _unit_for(span: Span) -> str:
    if span.days <= MOST_DAYS:
        return "day"
    if span.days <= MOST_WEEK_DAYS:
        return "week"
    return "month" if len(_split(span, NEXT_FIRST["month"])) <= MOST_MONTHS else "year"


def summed(points: Sequence[Counted], columns: Columns) -> list[Sold]:
    """The figures of each column. Those of a month that begins before the first column are the first one's."""
    firsts = [span.first for span in columns.spans]
    sums = [[0, 0, 0] for _ in firsts]
    for point in points:
        column = sums[max(bisect_right(firsts, point.starts_on) - 1, 0)]
        for number, added in enumerate((point.revenue, point.refunds, point.orders)):
            column[number] += added
    return [
        Sold(span=span, revenue=revenue, refunds=refunds, orders=orders)
        for span, (revenue, refunds, orders) in zip(columns.spans, sums, strict=True)
    ]


def without_years_before(points: Sequence[Counted], span: Span) -> Span | None:
    """The span from the first month with a figure on; None where there is none at all."""
    for point in points:
        if point.revenue or point.refunds or point.orders:
            return Span(max(point.starts_on, span.first), span.last)
    return None


def short_label(span: Span, unit: str) -> str:
    """For an axis: "3 Mar" for a day or the week from then on, "Mar \u201926", "2026"."""
    if unit == "year":
        return str(span.first.year)
    if unit == "month":
        return f"{span.first:%b} \u2019{span.first:%y}"
    return f"{span.first.day} {span.first:%b}"


def long_label(span: Span) -> str:
    """For a table: "3 Mar 2026", or "3 Mar 2026 to 9 Mar 2026"."""
    first, last = (f"{day.day} {day:%b} {day.year}" for day in (span.first, span.last))
    return first if first == last else f"{first} to {last}"


def _split(span: Span, next_first: Callable[[date], date]) -> list[Span]:
    pieces, first = [], span.first
    while first <= span.last:
        following = next_first(first)
        pieces.append(Span(first, min(following - timedelta(days=1), span.last)))
        first = following
    return pieces
