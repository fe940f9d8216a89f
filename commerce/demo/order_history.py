"""Generation of orders over two years, with growth and with weekly and seasonal patterns.

It does not use the database and yields one order at a time.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from random import Random

from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine

HISTORY_DAYS = 730
WEEKDAY_FACTORS = (0.85, 0.8, 0.85, 0.95, 1.15, 1.3, 1.1)  # Monday to Sunday
MONTH_FACTORS = (0.85, 0.8, 0.9, 0.95, 1.0, 0.95, 0.9, 0.9, 1.0, 1.05, 1.35, 1.6)  # January to December
SUMMER_FACTORS = (0.4, 0.5, 0.9, 1.4, 1.8, 2.0, 1.9, 1.5, 1.0, 0.6, 0.4, 0.4)
SEASON_FACTORS = {
    "": (1.0,) * 12,
    "summer": SUMMER_FACTORS,
    "winter": tuple(2.2 - factor for factor in SUMMER_FACTORS),
}
HOUR_WEIGHTS = (1, 1, 1, 1, 1, 2, 4, 7, 9, 10, 11, 12, 12, 11, 10, 10, 11, 12, 14, 16, 17, 14, 8, 3)
SETTLED_AFTER = timedelta(days=10)
SETTLED_STATUS_WEIGHTS = (("complete", 90), ("cancelled", 4), ("refunded", 3), ("failed", 3))
RECENT_STATUS_WEIGHTS = (
    ("pending", 15),
    ("processing", 35),
    ("at-local-facility", 12),
    ("out-for-delivery", 18),
    ("complete", 20),
)


@dataclass(frozen=True, kw_only=True)
class SellableItem:
    """A product or variation that orders may contain. `season` is that of its category."""

    product_id: int
    shop_id: int
    price: int
    season: str = ""
    variation_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class OrderTerms:
    """Currency, tax and fee of all orders: `tax_rate` in hundredths of a percent, `delivery_fee` in minor units."""

    currency: str
    tax_rate: int
    delivery_fee: int


def generate_orders(
    *,
    count: int,
    until: datetime,
    items: Sequence[SellableItem],
    customer_ids: Sequence[int],
    terms: OrderTerms,
    random: Random,
    history_days: int = HISTORY_DAYS,
) -> Iterator[BulkOrder]:
    """Yield `count` orders of the days before `until`, by default of two years, oldest first.

    `customer_ids` are in the order in which the customers joined: early orders are by early customers.
    """
    months = [_popularity(items, month) for month in range(12)]
    days = list(orders_per_day(count, until, history_days))
    for position, (day, orders) in enumerate(days):
        joined_count = max(1, round(len(customer_ids) * (0.1 + 0.9 * position / len(days))))
        for moment in _moments(day, orders, until, random):
            # The exponent makes some customers order often and most of them rarely.
            customer_id = customer_ids[int(joined_count * random.random() ** 1.6)]
            lines = _lines(items, months[day.month - 1], random)
            statuses = _statuses({line.shop_id for line in lines}, until - moment, random)
            amount = sum(line.quantity * line.unit_price for line in lines)
            yield BulkOrder(
                customer_id=customer_id,
                created_at=moment,
                currency=terms.currency,
                lines=lines,
                statuses=statuses,
                sales_tax=amount * terms.tax_rate // 10_000,
                delivery_fee=terms.delivery_fee,
            )


def orders_per_day(count: int, until: datetime, history_days: int = HISTORY_DAYS) -> Iterator[tuple[date, int]]:
    """Yield each day with its number of orders, which add up to `count`. The last day is not over."""
    days = [until.date() - timedelta(days=ago) for ago in range(history_days - 1, -1, -1)]
    weights = [
        WEEKDAY_FACTORS[day.weekday()] * MONTH_FACTORS[day.month - 1] * (0.6 + 0.8 * number / history_days)
        for number, day in enumerate(days)
    ]
    weights[-1] *= _elapsed_fraction(until)
    total, assigned = sum(weights), 0
    for day, reached in zip(days, accumulate(weights), strict=True):
        cumulative = round(count * min(1.0, reached / total))
        yield day, cumulative - assigned
        assigned = cumulative


def _elapsed_fraction(until: datetime) -> float:
    """Return how much of the day of `until` is over, from 0 to 1."""
    return (until - _midnight(until.date(), until)) / timedelta(days=1)


def _midnight(day: date, until: datetime) -> datetime:
    return datetime.combine(day, time.min, tzinfo=until.tzinfo)


def _moments(day: date, orders: int, until: datetime, random: Random) -> list[datetime]:
    """Return random times of the day, most in the evening; times of the last day end with `until`."""
    length = _elapsed_fraction(until) if day == until.date() else 1.0
    hours = random.choices(range(24), weights=HOUR_WEIGHTS, k=orders)
    seconds = sorted((hour + random.random()) * 3600 * length for hour in hours)
    return [_midnight(day, until) + timedelta(seconds=second) for second in seconds]


def _popularity(items: Sequence[SellableItem], month: int) -> list[float]:
    """Return cumulative weights: few items sell often, and seasonal items sell in their season."""
    ranks = Random(len(items))  # noqa: S311 the same ranking in every month
    order = list(range(len(items)))
    ranks.shuffle(order)
    return list(
        accumulate(
            SEASON_FACTORS[item.season][month] / (order[position] + 4) ** 0.7 for position, item in enumerate(items)
        )
    )


def _lines(items: Sequence[SellableItem], popularity: Sequence[float], random: Random) -> list[BulkOrderLine]:
    picked = {
        bisect(popularity, random.random() * popularity[-1], 0, len(items) - 1)
        for _ in range(1 if random.random() < 0.55 else 2 + int(random.random() * 2))
    }
    return [
        BulkOrderLine(
            items[position].shop_id,
            items[position].product_id,
            1 if random.random() < 0.75 else 2 + int(random.random() * 2),
            items[position].price,
            items[position].variation_id,
        )
        for position in sorted(picked)
    ]


def _statuses(shop_ids: set[int], age: timedelta, random: Random) -> dict[int, str]:
    weights_by_status = SETTLED_STATUS_WEIGHTS if age > SETTLED_AFTER else RECENT_STATUS_WEIGHTS
    names, weights = zip(*weights_by_status, strict=True)
    drawn = random.choices(names, weights=weights, k=len(shop_ids))
    return dict(zip(sorted(shop_ids), drawn, strict=True))
