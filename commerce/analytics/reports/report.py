"""A report on the sales of a scope: totals, series over time, and shops.

with open_report(scope_for_user(user, shop_id=7), now=timezone.now()) as report:
    totals = report.totals()
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from zoneinfo import ZoneInfo

from django.db.models import Case, Q, QuerySet, Sum, When
from django.db.models.functions import TruncDate
from django.utils.functional import cached_property

from commerce.analytics.models import LedgerEntry, PeriodRollup, RollupState
from commerce.analytics.reports.date_ranges import DateRange, last_days, local_date
from commerce.analytics.reports.new_customers import count_new_customers
from commerce.analytics.reports.results import SalesTotals, SeriesPoint, ShopTotals
from commerce.analytics.reports.sales_figures import SalesFigures, average
from commerce.analytics.reports.sales_reports import read_sales_report
from commerce.analytics.reports.scopes import PLATFORM_SHOP_ID, ReportScope
from commerce.orders.models import Order
from commerce.shops.models import Shop
from shared import transactions

WEEK_DAYS, MONTH_DAYS, YEAR_DAYS = 7, 30, 365
NEW_CUSTOMER_DAYS = 30  # of the totals of all time
MEASURES = ("orders", "revenue", "refunds", "customers")

# Day, order status, orders, revenue, refunds, new customers.
Row = tuple[date, str, int, int, int, int]


@contextmanager
def open_report(
    scope: ReportScope, *, now: datetime, sales_columns: Sequence[str] = ("days", "customers")
) -> Iterator["Report"]:
    """Open a report whose reads all see one snapshot of the database, except for those of the sales report.

    `sales_columns` are the columns of the sales report to read.
    """
    figures = read_sales_figures(scope, now=now, columns=sales_columns)
    with transactions.read_snapshot():
        yield Report(scope, now=now, figures=figures)


def read_sales_figures(scope: ReportScope, *, now: datetime, columns: Sequence[str]) -> SalesFigures | None:
    """Return the figures of a scope's sales report; None while it is pending. Call it outside of a snapshot."""
    sales = read_sales_report(scope.shop_ids, now=now, columns=columns)
    return SalesFigures(sales, scope.currency) if sales else None


class Report:
    """The sales of a scope, read from rollups and waiting ledger entries; use `open_report`.

    `figures` are those of the sales report, or None while it is pending.
    """

    def __init__(self, scope: ReportScope, *, now: datetime, figures: SalesFigures | None = None) -> None:
        self.scope, self.now, self.figures = scope, now, figures
        state = RollupState.objects.get(pk=1)
        # Days stay those of the former time zone until the rebuild for a new setting is complete.
        self.generation, self.zone = state.generation, ZoneInfo(state.time_zone)
        self._has_owner_groups = state.has_current_owner_groups
        self.today = local_date(self.zone, now)

    def recent_totals(self) -> tuple[SalesTotals, SalesTotals, SalesTotals, SalesTotals]:
        """Return the totals of today and of the last 7, 30 and 365 days, without those of the sales report."""
        recent, week = self._rows(last_days(MONTH_DAYS, self.today), day_by_day=True), last_days(WEEK_DAYS, self.today)
        return (
            _add_rows([row for row in recent if row[0] == self.today]),
            _add_rows([row for row in recent if row[0] >= week.first]),
            _add_rows(recent),
            _add_rows(self._total_rows(last_days(YEAR_DAYS, self.today))),
        )

    def months_of_this_year(self) -> list[SeriesPoint]:
        first, last = self.today.replace(month=1, day=1), self.today.replace(month=12, day=31)
        return self.series(DateRange(first, last), by=PeriodRollup.Grain.MONTH)

    def totals(self, date_range: DateRange | None = None) -> SalesTotals:
        """Return the totals of some days, or of all time with the new customers of the last 30 days."""
        added = _add_rows(self._all_time_rows if date_range is None else self._total_rows(date_range))
        new_customers = self.new_customers(date_range or last_days(NEW_CUSTOMER_DAYS, self.today))
        return SalesTotals(
            revenue=added.revenue,
            refunds=added.refunds,
            orders=added.orders,
            new_customers=new_customers,
            by_status=added.by_status,
            average_order_value=self._average_order_value(added, date_range),
            placed_revenue=self.figures.placed_revenue(date_range) if self.figures else None,
        )

    def _average_order_value(self, added: SalesTotals, date_range: DateRange | None) -> int | None:
        """Return the platform's from the rollups; a shop's order may be complete there before it is revenue."""
        if self.scope.is_platform:
            return average(added.revenue, added.by_status[Order.Status.COMPLETE])
        return self.figures.average_order_value(date_range) if self.figures else None

    def new_customers(self, date_range: DateRange) -> int:
        """Return the number of customers who joined the platform or, for shops, of those who also ordered there."""
        if self.scope.shop_ids is None:
            return sum(row[5] for row in self._total_rows(date_range))
        period = date_range.to_datetimes(self.zone)
        return count_new_customers(
            self.scope.shop_ids, period, self.generation, has_owner_groups=self._has_owner_groups
        )

    def series(self, date_range: DateRange, *, by: str = PeriodRollup.Grain.DAY) -> list[SeriesPoint]:
        """Return a point for each day or month, also where nothing was sold.

        A month at an end of the range counts only its days within the range.
        """
        sums: dict[date, Counter[str]] = defaultdict(Counter)
        for day, _, orders, revenue, refunds, _ in self._rows(date_range, day_by_day=by == PeriodRollup.Grain.DAY):
            sums[_period_start(day, by)].update(orders=orders, revenue=revenue, refunds=refunds)
        return [
            SeriesPoint(starts_on=day, **{name: sums[day][name] for name in ("revenue", "refunds", "orders")})
            for day in _period_starts(date_range, by)
        ]

    def by_shop(self, date_range: DateRange, *, limit: int) -> list[ShopTotals]:
        """Return the shops with the most revenue, then the most orders; shops without any sums are left out."""
        in_scope = Q() if self.scope.shop_ids is None else Q(shop_id__in=self.scope.shop_ids)
        sums: dict[int, Counter[str]] = defaultdict(Counter)
        names = ("orders", "revenue", "refunds")
        for rows in (self._rollups(date_range), self._entries(date_range)):
            by_shop = rows.exclude(shop_id=PLATFORM_SHOP_ID).filter(in_scope).values_list("shop_id")
            for shop_id, *added in by_shop.annotate(**{f"sum_{name}": Sum(name) for name in names}).order_by():
                sums[shop_id].update(dict(zip(names, added, strict=True)))
        ranked = sorted(sums, key=lambda pk: (-sums[pk]["revenue"], -sums[pk]["orders"], pk))
        ranked = [pk for pk in ranked if any(sums[pk].values())][:limit]
        shops = Shop.objects.in_bulk(ranked)
        return [
            ShopTotals(
                shop_id=pk, name=shops[pk].name if pk in shops else "", **{name: sums[pk][name] for name in names}
            )
            for pk in ranked
        ]

    def other_currencies(self) -> list[str]:
        """Return the other currencies in which there are orders."""
        counts: Counter[str] = Counter()
        for currency, row in self._all_rows:
            counts[currency] += row[2]
        return sorted(code for code in counts if counts[code] and code not in ("", self.scope.currency))

    @property
    def shops(self) -> "QuerySet[Shop]":
        return Shop.objects.all() if self.scope.shop_ids is None else Shop.objects.filter(pk__in=self.scope.shop_ids)

    @property
    def _all_time_rows(self) -> list[Row]:
        return [row for currency, row in self._all_rows if currency in ("", self.scope.currency)]

    @cached_property
    def _all_rows(self) -> list[tuple[str, Row]]:
        """Return the rows of all time, with their currency."""
        rollups = PeriodRollup.objects.filter(
            self.scope.rollup_filter, generation=self.generation, grain=PeriodRollup.Grain.ALL
        )
        rows = rollups.values_list("currency", "status").annotate(**_sums()).order_by()
        return [(row[0], (date.min, *row[1:])) for row in rows] + self._waiting_rows

    def _rows(self, date_range: DateRange, *, day_by_day: bool = False) -> list[Row]:
        """Return the rows of these days; a whole month is one row on its first day, unless `day_by_day`."""
        rollups = self._rollups(date_range, day_by_day).filter(self.scope.rollup_filter)
        rows = rollups.values_list("starts_on", "status").annotate(**_sums()).order_by()
        return list(rows) + self._waiting_rows_of(date_range)

    def _total_rows(self, date_range: DateRange) -> list[Row]:
        """Return the rows of these days, summed by status."""
        rollups = self._rollups(date_range).filter(self.scope.rollup_filter)
        rows = rollups.values_list("status").annotate(**_sums()).order_by()
        return [(date_range.first, *row) for row in rows] + self._waiting_rows_of(date_range)

    def _waiting_rows_of(self, date_range: DateRange) -> list[Row]:
        return [
            row
            for currency, row in self._waiting_rows
            if currency in ("", self.scope.currency) and date_range.first <= row[0] <= date_range.last
        ]

    def _rollups(self, date_range: DateRange, day_by_day: bool = False) -> "QuerySet[PeriodRollup]":
        periods = Q(pk__in=[])
        for grain, part in [(PeriodRollup.Grain.DAY, date_range)] if day_by_day else date_range.split_by_grain():
            periods |= Q(grain=grain, starts_on__range=(part.first, part.last))
        in_currency = Q(currency__in=["", self.scope.currency])
        return PeriodRollup.objects.filter(periods, in_currency, generation=self.generation)

    def _entries(self, date_range: DateRange) -> "QuerySet[LedgerEntry]":
        start, end = date_range.to_datetimes(self.zone)
        in_currency = Q(currency__in=["", self.scope.currency])
        return LedgerEntry.objects.filter(in_currency, happened_at__gte=start, happened_at__lt=end)

    @cached_property
    def _waiting_rows(self) -> list[tuple[str, Row]]:
        """Return the rows of the ledger entries that wait for aggregation, with their currency."""
        sums = _sums()
        if self.scope.is_platform:  # it counts parent orders only
            sums["sum_orders"] = Sum(Case(When(shop_id=PLATFORM_SHOP_ID, then="orders"), default=0))
        rows = (
            LedgerEntry.objects.filter(self.scope.ledger_filter)
            .annotate(day=TruncDate("happened_at", tzinfo=self.zone))
            .values_list("currency", "day", "status")
            .annotate(**sums)
            .order_by()
        )
        return [(row[0], tuple(row[1:])) for row in rows if any(row[3:])]


def _sums() -> dict[str, Sum]:
    return {f"sum_{name}": Sum(name) for name in MEASURES}


def _add_rows(rows: Sequence[Row]) -> SalesTotals:
    by_status: Counter[str] = Counter(dict.fromkeys(Order.Status.values, 0))
    for row in rows:
        if row[1]:
            by_status[row[1]] += row[2]
    return SalesTotals(
        revenue=sum(row[3] for row in rows),
        refunds=sum(row[4] for row in rows),
        orders=sum(by_status.values()),
        by_status=by_status,
    )


def _period_start(day: date, by: str) -> date:
    return day.replace(day=1) if by == PeriodRollup.Grain.MONTH else day


def _period_starts(date_range: DateRange, by: str) -> list[date]:
    ordinals = range(date_range.first.toordinal(), date_range.last.toordinal() + 1)
    return list(dict.fromkeys(_period_start(date.fromordinal(number), by) for number in ordinals))
