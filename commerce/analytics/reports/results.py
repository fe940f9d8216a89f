"""Results of a report. Money is in minor units of the report's currency."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date


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
