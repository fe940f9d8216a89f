"""Compare every rollup, together with the ledger, with the shop's tables: one SQL statement per kind of rollup.

The expected values are stated here a second time, with the ORM, so that mistakes in the triggers' SQL
(`ledger.entries`) show.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Case, CharField, Count, DateField, F, IntegerField, Min, QuerySet, Sum, Value, When
from django.db.models.functions import TruncDate, TruncMonth

from commerce.analytics.aggregation.owner_groups import FIRST_ORDERS, GROUP_FIRST_ORDERS, OWNER_GROUP_SHOPS
from commerce.analytics.ledger.entries import LEDGER
from commerce.analytics.models import LedgerEntry, PeriodRollup, ProductRollup, RollupState
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Review
from shared import transactions
from shared.accounts.models import User
from shared.accounts.roles import Role

PERIOD_SUMS, PRODUCT_SUMS = ("orders", "revenue", "refunds", "customers"), ("units", "stars", "reviews")
ZERO, EMPTY = Value(0, IntegerField()), Value("", CharField())
FIRST_DAY = Value(date.min, DateField())  # of all time

Rows = QuerySet[Any, Any]


class FirstOfMonth(TruncMonth):
    """The first day of a date's month, which PostgreSQL would return as a timestamp."""

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        statement, values = self.as_sql(compiler, connection)
        return f"({statement})::date", values


def find_differences(*, limit: int = 1000) -> list[str]:
    """Return a sentence for each wrong value, at most `limit` of each kind of rollup."""
    with transactions.read_snapshot():
        state = RollupState.objects.get(pk=1)
        return [
            *_days(state, limit),
            *_longer_periods(state, "month", FirstOfMonth("starts_on"), limit),
            *_longer_periods(state, "all", FIRST_DAY, limit),
            *_products(state, limit),
            *_first_orders(state, limit),
            *_owner_groups(state, limit),
        ]


def _days(state: RollupState, limit: int) -> Iterator[str]:
    zone = ZoneInfo(state.time_zone)
    entries = LedgerEntry.objects.annotate(day=TruncDate("happened_at", tzinfo=zone))
    parents = Case(When(shop_id=0, then="orders"), default=0)
    actual: list[Rows] = [
        _period_rollups(state, "day", F("starts_on")),
        entries.exclude(shop_id=0).values_list("day", "shop_id", "currency", "status", *PERIOD_SUMS),
        entries.values_list("day", ZERO, "currency", "status", parents, *PERIOD_SUMS[1:]),
    ]
    yield from _compare_periods("day", actual, _expected_days(zone), limit)


def _period_rollups(state: RollupState, grain: str, start: Any) -> Rows:
    rollups = PeriodRollup.objects.filter(generation=state.generation, grain=grain)
    return rollups.values_list(start, "shop_id", "currency", "status", *PERIOD_SUMS)


def _longer_periods(state: RollupState, grain: str, start: Any, limit: int) -> Iterator[str]:
    """Compare months, or all time, with the sum of their days."""
    actual, expected = _period_rollups(state, grain, F("starts_on")), _period_rollups(state, "day", start)
    yield from _compare_periods("month from" if grain == "month" else "all time from", [actual], [expected], limit)


def _compare_periods(label: str, actual: Iterable[Rows], expected: Iterable[Rows], limit: int) -> Iterator[str]:
    yield from _compare_sums(label, ("shop", "currency", "status"), PERIOD_SUMS, actual, expected, limit)


def _expected_days(zone: ZoneInfo) -> Iterator[Rows]:
    """Yield the sums by day, shop, currency and status that the shop's tables give."""
    parents = Order.objects.filter(parent=None)
    children = Order.objects.filter(parent__isnull=False, parent__parent=None)
    sold = children.filter(order_status="complete", parent__order_status="complete")
    own_day, parent_day = TruncDate("created_at", tzinfo=zone), TruncDate("parent__created_at", tzinfo=zone)
    fees = Sum(F("sales_tax") + F("delivery_fee"))
    complete = parents.filter(order_status="complete")
    approved = Refund.objects.filter(status="approved")
    approved_day = TruncDate("updated_at", tzinfo=zone)
    customers = User.objects.filter(role=Role.CUSTOMER)
    currency, status = F("currency"), F("order_status")
    yield _sum_by_day(parents, own_day, ZERO, currency, status, orders=Count("pk"))
    yield _sum_by_day(complete, own_day, ZERO, currency, status, revenue=fees)
    yield _sum_by_day(children, parent_day, F("shop_id"), currency, status, orders=Count("pk"))
    yield _sum_by_day(sold, parent_day, F("shop_id"), currency, status, revenue=Sum("total"))
    yield _sum_by_day(sold, parent_day, ZERO, currency, status, revenue=Sum("total"))
    yield _sum_by_day(approved, approved_day, ZERO, F("order__currency"), EMPTY, refunds=Sum("amount"))
    of_shops = approved.filter(shop__isnull=False)
    yield _sum_by_day(of_shops, approved_day, F("shop_id"), F("order__currency"), EMPTY, refunds=Sum("amount"))
    yield _sum_by_day(customers, own_day, ZERO, EMPTY, EMPTY, customers=Count("pk"))


def _sum_by_day(rows: Rows, day: Any, shop: Any, currency: Any, status: Any, **sums: Any) -> Rows:
    return _sum_by((day, shop, currency, status), rows, [sums.get(name, ZERO) for name in PERIOD_SUMS])


def _sum_by(keys: Sequence[Any], rows: Rows, sums: Sequence[Any]) -> Rows:
    groups = {f"key_{number}": key for number, key in enumerate(keys)}
    added = {f"sum_{number}": added for number, added in enumerate(sums)}
    summed: Rows = rows.order_by().values(**groups).annotate(**added).values_list(*groups, *added)
    return summed


def _products(state: RollupState, limit: int) -> Iterator[str]:
    columns = ("product_id", "shop_id", "currency", *PRODUCT_SUMS)
    rollups = ProductRollup.objects.filter(generation=state.generation).values_list(*columns)
    entries = LedgerEntry.objects.exclude(product_id=0).values_list(*columns)
    sold = OrderLine.objects.filter(
        order__order_status="complete", order__parent__order_status="complete", order__parent__parent=None
    )
    keys = (F("product_id"), F("order__shop_id"), F("order__currency"))
    units = _sum_by(keys, sold, (Sum("quantity"), ZERO, ZERO))
    reviews = Review.objects.visible()
    stars = _sum_by((F("product_id"), ZERO, EMPTY), reviews, (ZERO, Sum("rating"), Count("pk")))
    yield from _compare_sums("product", ("shop", "currency"), PRODUCT_SUMS, [rollups, entries], [units, stars], limit)


def _compare_sums(
    label: str,
    keys: Sequence[str],
    sums: Sequence[str],
    actual: Iterable[Rows],
    expected: Iterable[Rows],
    limit: int,
) -> Iterator[str]:
    """Sum both sides by what `label` names and by `keys`, and yield a sentence for each sum that differs."""
    grouping = ", ".join(("first", *keys))
    names = ", ".join((grouping, *sums))
    (left, left_values), (right, right_values) = _union(actual), _union(expected)
    pairs = ", ".join(f"SUM(CASE WHEN is_expected = {side} THEN {name} ELSE 0 END)" for name in sums for side in (0, 1))
    changed = " OR ".join(f"SUM(CASE WHEN is_expected = 1 THEN {name} ELSE -{name} END) <> 0" for name in sums)
    statement = f"""
        WITH actual ({names}) AS ({left}), expected ({names}) AS ({right})
        SELECT {grouping}, {pairs}
        FROM (SELECT *, 0 AS is_expected FROM actual UNION ALL SELECT *, 1 FROM expected) AS sides
        GROUP BY {grouping} HAVING {changed} ORDER BY {grouping} LIMIT {limit}
        """  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(statement, [*left_values, *right_values])
        rows = cursor.fetchall()
    for first, *others in rows:
        scope = ", ".join(f"{name} {value}" for name, value in zip(keys, others, strict=False) if value not in (0, ""))
        for name, is_value, should_be in zip(sums, others[len(keys) :: 2], others[len(keys) + 1 :: 2], strict=True):
            if is_value != should_be:
                yield f"{label} {first}, {scope or 'the platform'}: {name} is {is_value}, expected {should_be}."


def _union(parts: Iterable[Rows]) -> tuple[str, list[Any]]:
    compiled = [rows.query.sql_with_params() for rows in parts]
    return " UNION ALL ".join(sql for sql, _ in compiled), [value for _, values in compiled for value in values]


def _first_orders(state: RollupState, limit: int) -> Iterator[str]:
    """Compare the first orders of shops, except those of customers with waiting ledger entries."""
    children = Order.objects.filter(parent__isnull=False, parent__parent=None)
    expected, values = _union([_sum_by((F("shop_id"), F("customer_id")), children, [Min("parent__created_at")])])
    is_aggregated = f"NOT EXISTS (SELECT 1 FROM {LEDGER} WHERE shop_id = shop AND customer_id = customer)"  # noqa: S608  # nosec B608
    yield from _compare_first_orders("shop", state, "shop_id > 0", expected, values, is_aggregated, limit)


def _owner_groups(state: RollupState, limit: int) -> Iterator[str]:
    """Compare the first orders of owner groups with those of their shops; rows of former groups are ignored."""
    if not state.has_current_owner_groups:
        return
    owners = f"SELECT -owner_id FROM {OWNER_GROUP_SHOPS} WHERE generation = {state.generation}"  # noqa: S608  # nosec B608
    firsts = GROUP_FIRST_ORDERS.format(clause=f"WHERE g.generation = {state.generation}")
    expected = f"SELECT shop_id, customer_id, first_at FROM ({firsts}) AS of_shops"  # noqa: S608  # nosec B608
    yield from _compare_first_orders("owner group", state, f"shop_id IN ({owners})", expected, [], "TRUE", limit)


def _compare_first_orders(
    label: str, state: RollupState, which: str, expected: str, values: Sequence[Any], where: str, limit: int
) -> Iterator[str]:
    """Compare some first orders with a SELECT of a shop, a customer and the time of the first order."""
    statement = f"""
        WITH expected (shop, customer, first_at) AS ({expected})
        SELECT shop, customer, MAX(actual_at), MAX(expected_at) FROM (
            SELECT shop_id AS shop, customer_id AS customer, first_at AS actual_at, NULL AS expected_at
            FROM {FIRST_ORDERS} WHERE generation = {state.generation} AND {which}
            UNION ALL SELECT shop, customer, NULL, first_at FROM expected
        ) AS sides
        WHERE {where}
        GROUP BY shop, customer HAVING COUNT(actual_at) <> COUNT(expected_at) OR MAX(actual_at) <> MAX(expected_at)
        ORDER BY shop, customer LIMIT {limit}
        """  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        for shop, customer, actual_at, expected_at in cursor.fetchall():
            yield f"{label} {abs(shop)}, customer {customer}: first order is at {actual_at}, expected {expected_at}."
