"""Adding what rows count for to the figures: the SQL that folding and rebuilding share.

`source` is a SELECT of the ledger's columns, in which `%(name)s` stand for `values`.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models.query import RawQuerySet

from commerce.analytics import chains, chosen
from commerce.analytics.chains import CHAINS, FIRST
from commerce.analytics.chosen import Pair
from commerce.analytics.models import Entry, Figure, FirstOrder, ProductFigure
from commerce.orders.models import Order

ENTRIES, FIGURES = Entry._meta.db_table, Figure._meta.db_table
PRODUCTS, ORDERS = ProductFigure._meta.db_table, Order._meta.db_table
SUMS = "SUM(orders) AS orders, SUM(revenue) AS revenue, SUM(refunds) AS refunds, SUM(customers) AS customers"
NOT_NOTHING = "SUM(orders) <> 0 OR SUM(revenue) <> 0 OR SUM(refunds) <> 0 OR SUM(customers) <> 0"


def chosen_entries(ids: Iterable[int]) -> tuple[str, dict[str, Any]]:
    """The condition that an entry is one of these, and its value."""
    if connection.vendor == "sqlite":
        return "id IN (SELECT value FROM json_each(%(ids)s))", {"ids": json.dumps(list(ids))}
    return "id = ANY(%(ids)s::bigint[])", {"ids": list(ids)}


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Of which the figures are: all entries of this moment but those past an id, and all orders up to an id."""

    entry_id: int | None = None
    order_id: int | None = None


EVERYTHING = Extent()


def add(
    source: str, values: Mapping[str, Any], *, generation: int, time_zone: str, extent: Extent = EVERYTHING
) -> None:
    """Adds to the figures of a generation, whose days are those of a time zone."""
    named = {**values, "generation": generation, "time_zone": time_zone}
    with connection.cursor() as cursor:
        cursor.execute(_figures(source), named)
        cursor.execute(_products(source), named)
        cursor.execute(_first_orders(source), named)
        cursor.execute(_lost_orders(source), named)
        lost = cursor.fetchall()
    if lost:
        _find_again(lost, generation, extent)


def _figures(source: str) -> str:
    """By day, month and of all time, for each shop and for the platform, which has everybody's revenue and refunds."""
    day, month, all_time = _dates()
    return f"""
        WITH taken AS ({source}),
        dated AS (
            SELECT {day} AS day, shop_id, currency, status, {SUMS} FROM taken
            GROUP BY {day}, shop_id, currency, status
        ),
        seen AS (
            SELECT day, shop_id, currency, status, orders, revenue, refunds, customers FROM dated WHERE shop_id <> 0
            UNION ALL
            SELECT day, 0, currency, status, CASE WHEN shop_id = 0 THEN orders ELSE 0 END, revenue, refunds, customers
            FROM dated
        ),
        grained AS (
            SELECT 'day' AS grain, day AS starts_on, shop_id, currency, status, {SUMS} FROM seen
            GROUP BY day, shop_id, currency, status HAVING {NOT_NOTHING}
            UNION ALL
            SELECT 'month', {month}, shop_id, currency, status, {SUMS} FROM seen
            GROUP BY {month}, shop_id, currency, status HAVING {NOT_NOTHING}
            UNION ALL
            SELECT 'all', {all_time}, shop_id, currency, status, {SUMS} FROM seen
            GROUP BY shop_id, currency, status HAVING {NOT_NOTHING}
        )
        INSERT INTO {FIGURES} AS known
            (generation, grain, starts_on, shop_id, currency, status, orders, revenue, refunds, customers)
        SELECT %(generation)s, grain, starts_on, shop_id, currency, status, orders, revenue, refunds, customers
        FROM grained WHERE TRUE
        ON CONFLICT (generation, shop_id, grain, starts_on, currency, status) DO UPDATE SET
            orders = known.orders + excluded.orders, revenue = known.revenue + excluded.revenue,
            refunds = known.refunds + excluded.refunds, customers = known.customers + excluded.customers
        """  # noqa: S608  # nosec B608


def _dates() -> tuple[str, str, str]:
    """A moment's day in the time zone; the first of that day's month; and the day on which all time starts."""
    if connection.vendor == "sqlite":  # the function is Django's
        return (
            "django_datetime_cast_date(happened_at, %(time_zone)s, 'UTC')",
            "substr(day, 1, 8) || '01'",
            "'0001-01-01'",
        )
    return "(happened_at AT TIME ZONE %(time_zone)s)::date", "date_trunc('month', day)::date", "DATE '0001-01-01'"


def _products(source: str) -> str:
    return f"""
        WITH taken AS ({source}),
        summed AS (
            SELECT product_id, shop_id, currency, SUM(units) AS units, SUM(stars) AS stars, SUM(reviews) AS reviews
            FROM taken WHERE product_id <> 0 GROUP BY product_id, shop_id, currency
            HAVING SUM(units) <> 0 OR SUM(stars) <> 0 OR SUM(reviews) <> 0
        )
        INSERT INTO {PRODUCTS} AS known (generation, product_id, shop_id, currency, units, stars, reviews)
        SELECT %(generation)s, product_id, shop_id, currency, units, stars, reviews FROM summed WHERE TRUE
        ON CONFLICT (generation, product_id, shop_id, currency) DO UPDATE SET
            units = known.units + excluded.units, stars = known.stars + excluded.stars,
            reviews = known.reviews + excluded.reviews
        """  # noqa: S608  # nosec B608


def _moments(source: str, change: str) -> str:
    """When customers of shops have orders more, or fewer, than before."""
    return f"""
        SELECT shop_id, customer_id, happened_at FROM ({source}) AS taken WHERE customer_id <> 0
        GROUP BY shop_id, customer_id, happened_at HAVING SUM(orders) {change} 0
        """  # noqa: S608  # nosec B608


def _first_orders(source: str) -> str:
    """Of the shops, and of the chains that they belong to."""
    return f"""
        WITH gained AS ({_moments(source, ">")}),
        everywhere AS (
            SELECT shop_id, customer_id, happened_at FROM gained
            UNION ALL
            SELECT -c.owner_id, customer_id, happened_at
            FROM gained JOIN {CHAINS} c ON c.generation = %(generation)s AND c.shop_id = gained.shop_id
        )
        INSERT INTO {FIRST} AS known (generation, shop_id, customer_id, first_at)
        SELECT %(generation)s, shop_id, customer_id, MIN(happened_at) FROM everywhere
        WHERE TRUE GROUP BY shop_id, customer_id
        ON CONFLICT (generation, shop_id, customer_id) DO UPDATE SET first_at = excluded.first_at
        WHERE excluded.first_at < known.first_at
        """  # noqa: S608  # nosec B608


def _lost_orders(source: str) -> str:
    return f"SELECT DISTINCT shop_id, customer_id FROM ({_moments(source, '<')}) AS lost"  # noqa: S608  # nosec B608


def _find_again(lost: Collection[Pair], generation: int, extent: Extent) -> None:
    """Orders went: what is now the first order of each pair, and of the chain that its shop belongs to."""
    pairs, values = chosen.select(lost)
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {FIRST} WHERE generation = %(generation)s AND (shop_id, customer_id) IN ({pairs})",  # noqa: S608  # nosec B608
            {**values, "generation": generation},
        )
        cursor.execute(
            f"INSERT INTO {FIRST} (generation, shop_id, customer_id, first_at) "  # noqa: S608  # nosec B608
            f"SELECT %(generation)s, shop_id, customer_id, first_at FROM ({_first_left(pairs)}) AS first_left",
            {**values, "generation": generation, "entry_id": extent.entry_id, "order_id": extent.order_id},
        )
    chains.find_again(lost, generation)


def first_orders(pairs: Collection[Pair]) -> "RawQuerySet[FirstOrder]":
    """Of the pairs that have any, from the orders themselves; rows that are not in the table."""
    rows, values = chosen.select(pairs)
    statement = f"SELECT 0 AS id, shop_id, customer_id, first_at FROM ({_first_left(rows)}) AS first_left"  # noqa: S608  # nosec B608
    return FirstOrder.objects.raw(statement, {**values, "entry_id": None, "order_id": None})


def _first_left(pairs: str) -> str:
    """The first order of each pair in the shop's tables, without what those have more than the extent: nothing where
    the entry's id is NULL. PostgreSQL guesses badly how many entries there are past one; the CASE has it look each of
    them up in a hash of the pairs."""
    return f"""
        WITH pairs AS ({pairs}),
        counted AS (
            SELECT c.shop_id, c.customer_id, r.created_at AS happened_at, 1 AS orders
            FROM pairs JOIN {ORDERS} c ON c.customer_id = pairs.customer_id AND c.shop_id = pairs.shop_id
            JOIN {ORDERS} r ON r.id = c.parent_id
            WHERE r.parent_id IS NULL AND r.id <= COALESCE(%(order_id)s, r.id)
            UNION ALL
            SELECT shop_id, customer_id, happened_at, -orders FROM {ENTRIES}
            WHERE id > %(entry_id)s AND source_id <= COALESCE(%(order_id)s, source_id)
            AND CASE WHEN (shop_id, customer_id) IN (SELECT shop_id, customer_id FROM pairs) THEN TRUE ELSE FALSE END
        ),
        remaining AS (
            SELECT shop_id, customer_id, happened_at FROM counted
            GROUP BY shop_id, customer_id, happened_at HAVING SUM(orders) > 0
        )
        SELECT shop_id, customer_id, MIN(happened_at) AS first_at FROM remaining GROUP BY shop_id, customer_id
        """  # noqa: S608  # nosec B608
