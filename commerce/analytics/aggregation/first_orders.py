"""The first order of each customer from each shop and owner group, kept as orders come and go."""

from collections.abc import Collection

from django.db import connection
from django.db.models.query import RawQuerySet

from commerce.analytics.aggregation import owner_groups
from commerce.analytics.aggregation.id_lists import CustomerOfShop, select_pairs
from commerce.analytics.aggregation.owner_groups import FIRST_ORDERS, OWNER_GROUP_SHOPS
from commerce.analytics.ledger.entries import LEDGER, ORDERS
from commerce.analytics.models import FirstOrder


def upsert_statement(source: str) -> str:
    """Return the upsert of the first orders of shops and owner groups from a source's new orders."""
    return f"""
        WITH gained AS ({_order_times(source, ">")}),
        everywhere AS (
            SELECT shop_id, customer_id, happened_at FROM gained
            UNION ALL
            SELECT -g.owner_id, customer_id, happened_at
            FROM gained JOIN {OWNER_GROUP_SHOPS} g ON g.generation = %(generation)s AND g.shop_id = gained.shop_id
        )
        INSERT INTO {FIRST_ORDERS} AS existing (generation, shop_id, customer_id, first_at)
        SELECT %(generation)s, shop_id, customer_id, MIN(happened_at) FROM everywhere
        WHERE TRUE GROUP BY shop_id, customer_id
        ON CONFLICT (generation, shop_id, customer_id) DO UPDATE SET first_at = excluded.first_at
        WHERE excluded.first_at < existing.first_at
        """  # noqa: S608  # nosec B608


def pairs_with_lost_orders(source: str) -> str:
    """Return the SELECT of the pairs of shop and customer that lost orders, perhaps their first one."""
    return f"SELECT DISTINCT shop_id, customer_id FROM ({_order_times(source, '<')}) AS lost"  # noqa: S608  # nosec B608


def _order_times(source: str, comparison: str) -> str:
    """Return the SELECT of the times at which pairs gained (`>`) or lost (`<`) orders."""
    return f"""
        SELECT shop_id, customer_id, happened_at FROM ({source}) AS entries WHERE customer_id <> 0
        GROUP BY shop_id, customer_id, happened_at HAVING SUM(orders) {comparison} 0
        """  # noqa: S608  # nosec B608


def recompute(
    pairs: Collection[CustomerOfShop], generation: int, *, last_entry_id: int | None, last_order_id: int | None
) -> None:
    """Recompute the first order of each pair, and of the owner groups of their shops, after orders were lost.

    The ids bound what the generation contains; see `rollups.add`.
    """
    select, values = select_pairs(pairs)
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {FIRST_ORDERS} WHERE generation = %(generation)s AND (shop_id, customer_id) IN ({select})",  # noqa: S608  # nosec B608
            {**values, "generation": generation},
        )
        cursor.execute(
            f"INSERT INTO {FIRST_ORDERS} (generation, shop_id, customer_id, first_at) "  # noqa: S608  # nosec B608
            f"SELECT %(generation)s, shop_id, customer_id, first_at FROM ({_remaining_first_orders(select)}) AS firsts",
            {**values, "generation": generation, "entry_id": last_entry_id, "order_id": last_order_id},
        )
    owner_groups.recompute_first_orders(pairs, generation)


def read_from_orders(pairs: Collection[CustomerOfShop]) -> "RawQuerySet[FirstOrder]":
    """Return unsaved `FirstOrder` instances of the pairs that have orders, computed from the orders themselves."""
    select, values = select_pairs(pairs)
    statement = f"SELECT 0 AS id, shop_id, customer_id, first_at FROM ({_remaining_first_orders(select)}) AS firsts"  # noqa: S608  # nosec B608
    return FirstOrder.objects.raw(statement, {**values, "entry_id": None, "order_id": None})


def _remaining_first_orders(pairs: str) -> str:
    """Return the SELECT of the first order of each pair in the shop's tables.

    Entries past `entry_id` are subtracted: they are in the tables, but not in the rollups. A NULL subtracts nothing.
    PostgreSQL estimates the number of those entries badly; the CASE makes it look each up in a hash of the pairs.
    """
    return f"""
        WITH pairs AS ({pairs}),
        counted AS (
            SELECT c.shop_id, c.customer_id, r.created_at AS happened_at, 1 AS orders
            FROM pairs JOIN {ORDERS} c ON c.customer_id = pairs.customer_id AND c.shop_id = pairs.shop_id
            JOIN {ORDERS} r ON r.id = c.parent_id
            WHERE r.parent_id IS NULL AND r.id <= COALESCE(%(order_id)s, r.id)
            UNION ALL
            SELECT shop_id, customer_id, happened_at, -orders FROM {LEDGER}
            WHERE id > %(entry_id)s AND source_id <= COALESCE(%(order_id)s, source_id)
            AND CASE WHEN (shop_id, customer_id) IN (SELECT shop_id, customer_id FROM pairs) THEN TRUE ELSE FALSE END
        ),
        remaining AS (
            SELECT shop_id, customer_id, happened_at FROM counted
            GROUP BY shop_id, customer_id, happened_at HAVING SUM(orders) > 0
        )
        SELECT shop_id, customer_id, MIN(happened_at) AS first_at FROM remaining GROUP BY shop_id, customer_id
        """  # noqa: S608  # nosec B608
