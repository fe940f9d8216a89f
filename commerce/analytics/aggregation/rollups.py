"""Add entries to the rollups: the SQL that aggregation and rebuilds share.

A `source` is a SELECT of the ledger's columns with `%(name)s` placeholders for `values`.
"""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection

from commerce.analytics.aggregation import first_orders
from commerce.analytics.models import PeriodRollup, ProductRollup

PERIOD_ROLLUPS, PRODUCT_ROLLUPS = PeriodRollup._meta.db_table, ProductRollup._meta.db_table
SUMS = "SUM(orders) AS orders, SUM(revenue) AS revenue, SUM(refunds) AS refunds, SUM(customers) AS customers"
HAS_SUM = "SUM(orders) <> 0 OR SUM(revenue) <> 0 OR SUM(refunds) <> 0 OR SUM(customers) <> 0"


def add(
    source: str,
    values: Mapping[str, Any],
    *,
    generation: int,
    time_zone: str,
    last_entry_id: int | None = None,
    last_order_id: int | None = None,
) -> None:
    """Add the rows of a source to the rollups of a generation, whose days are those of a time zone.

    The ids bound what the generation contains: entries and orders up to these ids; None means no bound.
    """
    parameters = {**values, "generation": generation, "time_zone": name_in_sql(time_zone)}
    with connection.cursor() as cursor:
        cursor.execute(_upsert_period_rollups(source), parameters)
        cursor.execute(_upsert_product_rollups(source), parameters)
        cursor.execute(first_orders.upsert_statement(source), parameters)
        cursor.execute(first_orders.pairs_with_lost_orders(source), parameters)
        pairs = cursor.fetchall()
    if pairs:
        first_orders.recompute(pairs, generation, last_entry_id=last_entry_id, last_order_id=last_order_id)


def name_in_sql(time_zone: str) -> str:
    """Return the name of a time zone for SQL.

    Django's functions for SQLite read "Etc/GMT-12" as twelve hours before "Etc/GMT", and so need "+12" for it.
    """
    if connection.vendor == "sqlite":
        return ZoneInfo(time_zone).tzname(None) or time_zone
    return time_zone


def _upsert_period_rollups(source: str) -> str:
    """Return the upsert by day, month and all time, for each shop and for the platform.

    The platform's rows have everyone's revenue and refunds, but parent orders only.
    """
    day, month, all_time = _date_expressions()
    return f"""
        WITH entries AS ({source}),
        by_day AS (
            SELECT {day} AS day, shop_id, currency, status, {SUMS} FROM entries
            GROUP BY {day}, shop_id, currency, status
        ),
        by_scope AS (
            SELECT day, shop_id, currency, status, orders, revenue, refunds, customers FROM by_day WHERE shop_id <> 0
            UNION ALL
            SELECT day, 0, currency, status, CASE WHEN shop_id = 0 THEN orders ELSE 0 END, revenue, refunds, customers
            FROM by_day
        ),
        by_grain AS (
            SELECT 'day' AS grain, day AS starts_on, shop_id, currency, status, {SUMS} FROM by_scope
            GROUP BY day, shop_id, currency, status HAVING {HAS_SUM}
            UNION ALL
            SELECT 'month', {month}, shop_id, currency, status, {SUMS} FROM by_scope
            GROUP BY {month}, shop_id, currency, status HAVING {HAS_SUM}
            UNION ALL
            SELECT 'all', {all_time}, shop_id, currency, status, {SUMS} FROM by_scope
            GROUP BY shop_id, currency, status HAVING {HAS_SUM}
        )
        INSERT INTO {PERIOD_ROLLUPS} AS existing
            (generation, grain, starts_on, shop_id, currency, status, orders, revenue, refunds, customers)
        SELECT %(generation)s, grain, starts_on, shop_id, currency, status, orders, revenue, refunds, customers
        FROM by_grain WHERE TRUE
        ON CONFLICT (generation, shop_id, grain, starts_on, currency, status) DO UPDATE SET
            orders = existing.orders + excluded.orders, revenue = existing.revenue + excluded.revenue,
            refunds = existing.refunds + excluded.refunds, customers = existing.customers + excluded.customers
        """  # noqa: S608  # nosec B608


def _date_expressions() -> tuple[str, str, str]:
    """Return the SQL of an entry's day in the time zone, the first of its month, and the first day of all time."""
    if connection.vendor == "sqlite":  # the function is one that Django registers
        return (
            "django_datetime_cast_date(happened_at, %(time_zone)s, 'UTC')",
            "substr(day, 1, 8) || '01'",
            "'0001-01-01'",
        )
    return "(happened_at AT TIME ZONE %(time_zone)s)::date", "date_trunc('month', day)::date", "DATE '0001-01-01'"


def _upsert_product_rollups(source: str) -> str:
    return f"""
        WITH entries AS ({source}),
        by_product AS (
            SELECT product_id, shop_id, currency, SUM(units) AS units, SUM(stars) AS stars, SUM(reviews) AS reviews
            FROM entries WHERE product_id <> 0 GROUP BY product_id, shop_id, currency
            HAVING SUM(units) <> 0 OR SUM(stars) <> 0 OR SUM(reviews) <> 0
        )
        INSERT INTO {PRODUCT_ROLLUPS} AS existing (generation, product_id, shop_id, currency, units, stars, reviews)
        SELECT %(generation)s, product_id, shop_id, currency, units, stars, reviews FROM by_product WHERE TRUE
        ON CONFLICT (generation, product_id, shop_id, currency) DO UPDATE SET
            units = existing.units + excluded.units, stars = existing.stars + excluded.stars,
            reviews = existing.reviews + excluded.reviews
        """  # noqa: S608  # nosec B608
