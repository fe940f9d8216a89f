"""Results of a report. Money is in minor units of the report's currency."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from commerce.analytics.reports.date_ranges import DateRange


@dataclass(frozen=True, kw_only=True)
class SalesTotals:
    """Totals of some days: orders and revenue by the day of the order, refunds by the day of their approval.

    `placed_revenue`, and for shops `average_order_value`, are those of the sales report: None while it is pending.
    """

    revenue: int = 0
    refunds: int = 0
    orders: int = 0
    new_customers: int = 0
    by_status: Mapping[str, int] = field(default_factory=dict)
    average_order_value: int | None = None
    placed_revenue: int | None = None


@dataclass(frozen=True, kw_only=True)
class SalesOverview:
    """The result of GET /analytics. `totals` are of `date_range`, or of all time without one.

    `returning_customer_rate` and `as_of` are those of the sales report: None while it is pending.
    """

    currency: str
    currencies: Sequence[str]
    date_range: DateRange | None
    totals: SalesTotals
    previous_range: DateRange | None
    previous: SalesTotals | None
    shops: int
    vendors: int
    today: SalesTotals
    year: int
    revenue_by_month: Sequence[int]
    week_by_status: Mapping[str, int]
    month_by_status: Mapping[str, int]
    year_by_status: Mapping[str, int]
    returning_customer_rate: float | None
    as_of: datetime | None


@dataclass(frozen=True, kw_only=True)
class SeriesPoint:
    """One day, or the month that starts on it, in a series over time."""

    starts_on: date
    revenue: int
    refunds: int
    orders: int


@dataclass(frozen=True, kw_only=True)
class ShopTotals:
    """Totals of one shop."""

    shop_id: int
    name: str
    revenue: int
    refunds: int
    orders: int
