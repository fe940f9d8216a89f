"""What the shops earn, read: every figure is what is folded and what is not folded yet, together, of one moment.

A caller opens one `Report` for whoever asks, and reads from it; the dataclasses have money in minor units.

    with reports.opened(scopes.scope_of(user, shop_id=7), now=timezone.now()) as report:
        overview = report.overview()
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from django.db.models import Case, Q, QuerySet, Sum, When
from django.db.models.functions import TruncDate

from commerce.analytics.calendars import Span, last_days, today_in
from commerce.analytics.models import Books, Entry, Figure
from commerce.analytics.newcomers import count_newcomers
from commerce.analytics.scopes import PLATFORM, Scope
from commerce.orders.models import Order
from commerce.shops.models import Shop
from shared.api import snapshots

NEW_FOR_DAYS = 30
WEEK, MONTH, YEAR = 7, 30, 365
MEASURES = ("orders", "revenue", "refunds", "customers")


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What came in and went out in some days. `orders` and `revenue` are by the order's day, refunds by the day of
    their decision."""

    revenue: int = 0
    refunds: int = 0
    orders: int = 0
    new_customers: int = 0
    by_status: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Overview:
    """All that GET /analytics tells. `totals` are of all time, or of `span` where one was asked for."""

    currency: str
    currencies: Sequence[str]
    span: Span | None
    totals: Sums
    previous_span: Span | None
    previous: Sums | None
    shops: int
    vendors: int
    today: Sums
    year: int
    revenue_by_month: Sequence[int]
    week_by_status: Mapping[str, int]
    month_by_status: Mapping[str, int]
    year_by_status: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A day, or the month that begins with it, in a series over time."""

    starts_on: date
    revenue: int
    refunds: int
    orders: int


@dataclass(frozen=True, kw_only=True)
class ShopSums:
    """One shop's share."""

    shop_id: int
    name: str
    revenue: int
    refunds: int
    orders: int


# Of a day and an order status: orders, revenue, refunds, new customers.
Row = tuple[date, str, int, int, int, int]


@contextmanager
def opened(scope: Scope, *, now: datetime) -> Iterator["Report"]:
    """A report of which everything that is read is of one moment."""
    with snapshots.read():
        yield Report(scope, now=now)


class Report:
    """Reads the figures of a scope. Made by `opened`."""

    def __init__(self, scope: Scope, *, now: datetime) -> None:
        self.scope, self.now = scope, now
        books = Books.objects.get(pk=1)
        # Until a new setting's days are made, those of the old one are told.
        self.generation, self.zone = books.generation, ZoneInfo(books.time_zone)
        self._keeps_chains = books.keeps_chains
        self.today = today_in(self.zone, now)

    def overview(self, *, span: Span | None = None, compare: bool = False) -> Overview:
        """`compare`: also the sums of as many days before `span`."""
        recent = self._rows(last_days(MONTH, self.today), day_by_day=True)
        today = _added([row for row in recent if row[0] == self.today])
        week = last_days(WEEK, self.today)
        year = self._totals(last_days(YEAR, self.today))
        before = span.before() if span and compare else None
        return Overview(
            currency=self.scope.currency,
            currencies=self.other_currencies(),
            span=span,
            totals=self.sums(span),
            previous_span=before,
            previous=self.sums(before) if before else None,
            shops=self._shops.count(),
            vendors=self._shops.values("owner").distinct().count() if self.scope.is_platform else 0,
            today=today,
            year=self.today.year,
            revenue_by_month=[point.revenue for point in self.series(_year(self.today), by=Figure.Grain.MONTH)],
            week_by_status=_added([row for row in recent if row[0] >= week.first]).by_status,
            month_by_status=_added(recent).by_status,
            year_by_status=_added(year).by_status,
        )

    def sums(self, span: Span | None = None) -> Sums:
        """Of some days, or of all time. New customers of all time are those of the last 30 days."""
        rows = self._all_time if span is None else self._totals(span)
        added = _added(rows)
        new = self.new_customers(span or last_days(NEW_FOR_DAYS, self.today))
        return Sums(
            revenue=added.revenue,
            refunds=added.refunds,
            orders=added.orders,
            new_customers=new,
            by_status=added.by_status,
        )

    def new_customers(self, span: Span) -> int:
        """Of the platform those who joined; of shops those who ordered from any of them for the first time."""
        if self.scope.shop_ids is None:
            return sum(row[5] for row in self._totals(span))
        period = span.moments(self.zone)
        return count_newcomers(self.scope.shop_ids, period, self.generation, keeps_chains=self._keeps_chains)

    def series(self, span: Span, *, by: str = Figure.Grain.DAY) -> list[Point]:
        """A point for each day, or for each month that the span touches, also where nothing was sold. The figures of a
        month at an end of the span are of the days within it."""
        sums: dict[date, Counter[str]] = defaultdict(Counter)
        for day, _, orders, revenue, refunds, _ in self._rows(span, day_by_day=by == Figure.Grain.DAY):
            sums[_start(day, by)].update(orders=orders, revenue=revenue, refunds=refunds)
        return [
            Point(starts_on=day, **{name: sums[day][name] for name in ("revenue", "refunds", "orders")})
            for day in _starts(span, by)
        ]

    def by_shop(self, span: Span, *, limit: int) -> list[ShopSums]:
        """The shops with the most revenue in these days, and then the most orders; those without any figure are left
        out."""
        own = Q() if self.scope.shop_ids is None else Q(shop_id__in=self.scope.shop_ids)
        sums: dict[int, Counter[str]] = defaultdict(Counter)
        figures = self._figures(span).exclude(shop_id=PLATFORM).filter(own).values_list("shop_id")
        entries = self._entries(span).exclude(shop_id=PLATFORM).filter(own).values_list("shop_id")
        names = ("orders", "revenue", "refunds")
        for rows in (figures, entries):
            for shop_id, *added in rows.annotate(**{f"sum_{name}": Sum(name) for name in names}).order_by():
                sums[shop_id].update(dict(zip(names, added, strict=True)))
        ranked = sorted(sums, key=lambda pk: (-sums[pk]["revenue"], -sums[pk]["orders"], pk))
        ranked = [pk for pk in ranked if any(sums[pk].values())][:limit]
        shops = Shop.objects.in_bulk(ranked)
        return [
            ShopSums(shop_id=pk, name=shops[pk].name if pk in shops else "", **{name: sums[pk][name] for name in names})
            for pk in ranked
        ]

    def other_currencies(self) -> list[str]:
        """The other currencies that there are orders in."""
        counted = self._all_currencies
        return sorted(code for code in counted if counted[code] and code not in ("", self.scope.currency))

    @property
    def _shops(self) -> "QuerySet[Shop]":
        return Shop.objects.all() if self.scope.shop_ids is None else Shop.objects.filter(pk__in=self.scope.shop_ids)

    @property
    def _all_time(self) -> list[Row]:
        return [row for currency, row in self._all_rows if currency in ("", self.scope.currency)]

    @cached_property
    def _all_currencies(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for currency, row in self._all_rows:
            counted[currency] += row[2]
        return counted

    @cached_property
    def _all_rows(self) -> list[tuple[str, Row]]:
        """Of all time and every currency."""
        figures = Figure.objects.filter(self.scope.figures, generation=self.generation, grain=Figure.Grain.ALL)
        folded = [
            (row[0], (date.min, *row[1:]))
            for row in figures.values_list("currency", "status").annotate(**_sums()).order_by()
        ]
        return folded + [(currency, row) for currency, row in self._unfolded]

    def _rows(self, span: Span, *, day_by_day: bool = False) -> list[Row]:
        """Of these days, by status; a whole month's stand on its first day, unless they are wanted day by day."""
        folded = self._figures(span, day_by_day).filter(self.scope.figures).values_list("starts_on", "status")
        return list(folded.annotate(**_sums()).order_by()) + self._waiting(span)

    def _totals(self, span: Span) -> list[Row]:
        """Of these days together, by status."""
        folded = self._figures(span).filter(self.scope.figures).values_list("status")
        return [(span.first, *row) for row in folded.annotate(**_sums()).order_by()] + self._waiting(span)

    def _waiting(self, span: Span) -> list[Row]:
        """Of these days, what waits to be folded."""
        return [
            row
            for currency, row in self._unfolded
            if currency in ("", self.scope.currency) and span.first <= row[0] <= span.last
        ]

    def _figures(self, span: Span, day_by_day: bool = False) -> "QuerySet[Figure]":
        pieces = Q(pk__in=[])
        for grain, piece in [(Figure.Grain.DAY, span)] if day_by_day else span.pieces():
            pieces |= Q(grain=grain, starts_on__range=(piece.first, piece.last))
        in_currency = Q(currency__in=["", self.scope.currency])
        return Figure.objects.filter(pieces, in_currency, generation=self.generation)

    def _entries(self, span: Span) -> "QuerySet[Entry]":
        first, end = span.moments(self.zone)
        in_currency = Q(currency__in=["", self.scope.currency])
        return Entry.objects.filter(in_currency, happened_at__gte=first, happened_at__lt=end)

    @cached_property
    def _unfolded(self) -> list[tuple[str, Row]]:
        """What waits to be folded, by currency, day and status."""
        sums = _sums()
        if self.scope.is_platform:  # whose orders are the parents
            sums["sum_orders"] = Sum(Case(When(shop_id=PLATFORM, then="orders"), default=0))
        rows = (
            Entry.objects.filter(self.scope.entries)
            .annotate(day=TruncDate("happened_at", tzinfo=self.zone))
            .values_list("currency", "day", "status")
            .annotate(**sums)
            .order_by()
        )
        return [(row[0], tuple(row[1:])) for row in rows if any(row[3:])]


def _sums() -> dict[str, Sum]:
    return {f"sum_{name}": Sum(name) for name in MEASURES}


def _added(rows: Sequence[Row]) -> Sums:
    by_status: Counter[str] = Counter(dict.fromkeys(Order.Status.values, 0))
    for row in rows:
        if row[1]:
            by_status[row[1]] += row[2]
    return Sums(
        revenue=sum(row[3] for row in rows),
        refunds=sum(row[4] for row in rows),
        orders=sum(by_status.values()),
        by_status=by_status,
    )


def _year(today: date) -> Span:
    return Span(today.replace(month=1, day=1), today.replace(month=12, day=31))


def _start(day: date, by: str) -> date:
    return day.replace(day=1) if by == Figure.Grain.MONTH else day


def _starts(span: Span, by: str) -> list[date]:
    days = (date.fromordinal(number) for number in range(span.first.toordinal(), span.last.toordinal() + 1))
    return list(dict.fromkeys(_start(day, by) for day in days))
