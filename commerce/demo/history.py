"""Two years of orders, drawn from a seed: more of them each month, most at weekends and before the holidays, warm
things in winter and tents in summer. Pure: it knows no database, and yields one order at a time."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from random import Random

from commerce.orders.bulk import PastLine, PastOrder

DAYS = 730
WEEK = (0.85, 0.8, 0.85, 0.95, 1.15, 1.3, 1.1)  # Monday to Sunday
YEAR = (0.85, 0.8, 0.9, 0.95, 1.0, 0.95, 0.9, 0.9, 1.0, 1.05, 1.35, 1.6)  # January to December
WARM = (0.4, 0.5, 0.9, 1.4, 1.8, 2.0, 1.9, 1.5, 1.0, 0.6, 0.4, 0.4)
SEASONS = {"": (1.0,) * 12, "summer": WARM, "winter": tuple(2.2 - factor for factor in WARM)}
HOURS = (1, 1, 1, 1, 1, 2, 4, 7, 9, 10, 11, 12, 12, 11, 10, 10, 11, 12, 14, 16, 17, 14, 8, 3)
SETTLED_AFTER = timedelta(days=10)
OLD = (("complete", 90), ("cancelled", 4), ("refunded", 3), ("failed", 3))
FRESH = (("pending", 15), ("processing", 35), ("at-local-facility", 12), ("out-for-delivery", 18), ("complete", 20))


@dataclass(frozen=True, kw_only=True)
class Sold:
    """What may be in an order. `season` as in the demo's categories."""

    product_id: int
    shop_id: int
    price: int
    season: str = ""
    variation_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What every order is bought at: `tax_rate` in hundredths of a percent, `delivery_fee` in minor units."""

    currency: str
    tax_rate: int
    delivery_fee: int


def past_orders(
    *, count: int, until: datetime, goods: Sequence[Sold], customer_ids: Sequence[int], terms: Terms, random: Random
) -> Iterator[PastOrder]:
    """So many orders of the two years before `until`, oldest first. Customers are in the order in which they came:
    nobody buys much before they are there."""
    months = [_popularity(goods, month) for month in range(12)]
    days = list(orders_a_day(count, until))
    for position, (day, orders) in enumerate(days):
        known = max(1, round(len(customer_ids) * (0.1 + 0.9 * position / len(days))))
        for moment in _moments(day, orders, until, random):
            # The power makes some customers come often, and most of them rarely.
            customer_id = customer_ids[int(known * random.random() ** 1.6)]
            lines = _lines(goods, months[day.month - 1], random)
            statuses = _statuses({line.shop_id for line in lines}, until - moment, random)
            amount = sum(line.quantity * line.unit_price for line in lines)
            yield PastOrder(
                customer_id=customer_id,
                created_at=moment,
                currency=terms.currency,
                lines=lines,
                statuses=statuses,
                sales_tax=amount * terms.tax_rate // 10_000,
                delivery_fee=terms.delivery_fee,
            )


def orders_a_day(count: int, until: datetime) -> Iterator[tuple[date, int]]:
    """How many of `count` orders fall on each day, of which the last is not over; they add up."""
    days = [until.date() - timedelta(days=ago) for ago in range(DAYS - 1, -1, -1)]
    weights = [
        WEEK[day.weekday()] * YEAR[day.month - 1] * (0.6 + 0.8 * number / DAYS) for number, day in enumerate(days)
    ]
    weights[-1] *= _begun(until)
    whole, given = sum(weights), 0
    for day, reached in zip(days, accumulate(weights), strict=True):
        due = round(count * min(1.0, reached / whole))
        yield day, due - given
        given = due


def _begun(until: datetime) -> float:
    """How much of its day is over."""
    return (until - _midnight(until.date(), until)) / timedelta(days=1)


def _midnight(day: date, until: datetime) -> datetime:
    return datetime.combine(day, time.min, tzinfo=until.tzinfo)


def _moments(day: date, orders: int, until: datetime, random: Random) -> list[datetime]:
    """Within the day, mostly in the evening; the day that is not over is a shorter one."""
    length = _begun(until) if day == until.date() else 1.0
    hours = random.choices(range(24), weights=HOURS, k=orders)
    seconds = sorted((hour + random.random()) * 3600 * length for hour in hours)
    return [_midnight(day, until) + timedelta(seconds=second) for second in seconds]


def _popularity(goods: Sequence[Sold], month: int) -> list[float]:
    """Cumulative weights: few things sell a lot, and a season's things in their season."""
    ranks = Random(len(goods))  # noqa: S311 the same order of popularity in every month
    order = list(range(len(goods)))
    ranks.shuffle(order)
    return list(accumulate(SEASONS[one.season][month] / (order[place] + 4) ** 0.7 for place, one in enumerate(goods)))


def _lines(goods: Sequence[Sold], popularity: Sequence[float], random: Random) -> list[PastLine]:
    picked = {
        bisect(popularity, random.random() * popularity[-1], 0, len(goods) - 1)
        for _ in range(1 if random.random() < 0.55 else 2 + int(random.random() * 2))
    }
    return [
        PastLine(
            goods[place].shop_id,
            goods[place].product_id,
            1 if random.random() < 0.75 else 2 + int(random.random() * 2),
            goods[place].price,
            goods[place].variation_id,
        )
        for place in sorted(picked)
    ]


def _statuses(shop_ids: set[int], age: timedelta, random: Random) -> dict[int, str]:
    table = OLD if age > SETTLED_AFTER else FRESH
    names, weights = zip(*table, strict=True)
    drawn = random.choices(names, weights=weights, k=len(shop_ids))
    return dict(zip(sorted(shop_ids), drawn, strict=True))
