"""Compare every rollup, together with the ledger, with the shop's tables: one SQL statement per kind of rollup.

The expected values are stated here a second time, with the ORM, so that mistakes in the triggers' SQL
(`ledger.entries`) show.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import CharField, Count, F, IntegerField, Min, QuerySet, Sum, Value
from django.db.models.functions import TruncDate

from commerce.analytics.aggregation.owner_groups import FIRST_ORDERS, GROUP_FIRST_ORDERS, OWNER_GROUP_SHOPS
from commerce.analytics.aggregation.rollups import PERIOD_ROLLUPS, PRODUCT_ROLLUPS, name_in_sql
from commerce.analytics.ledger.entries import LEDGER
from commerce.analytics.models import RollupState
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Review
from shared import transactions
from shared.accounts.models import User
from shared.accounts.roles import Role

PERIOD_KEYS, PERIOD_SUMS = ("day", "shop", "currency", "status"), ("orders", "revenue", "refunds", "customers")
PRODUCT_KEYS, PRODUCT_SUMS = ("product", "shop", "currency"), ("units", "stars", "reviews")
ZERO, EMPTY = Value(0, IntegerField()), Value("", CharField())

Select = tuple[str, Sequence[Any]]  # a statement and its parameters


def find_differences(*, limit: int = 1000) -> list[str]:
    """Return a sentence for each wrong value, at most `limit` of each kind of rollup."""
    with transactions.read_snapshot():
        state = RollupState.objects.get(pk=1)
        return [
            *_days(state, limit),
            *_longer_periods(state, "month", limit),
            *_longer_periods(state, "all", limit),
            *_products(state, limit),
            *_first_orders(state, limit),
            *_owner_groups(state, limit),
        ]


def _days(state: RollupState, limit: int) -> Iterator[str]:
    time_zone = name_in_sql(state.time_zone)
    if connection.vendor == "sqlite":
        day = f"django_datetime_cast_date(happened_at, '{time_zone}', 'UTC')"
    else:
        day = f"(happened_at AT TIME ZONE '{time_zone}')::date"
    money = "revenue, refunds, customers FROM"
    rollups = (
        f"SELECT starts_on, shop_id, currency, status, orders, {money} {PERIOD_ROLLUPS} "  # nosec B608
        f"WHERE generation = {state.generation} AND grain = 'day'"
    )
    of_shops = f"SELECT {day}, shop_id, currency, status, orders, {money} {LEDGER} WHERE shop_id <> 0"  # nosec B608
    parents = "CASE WHEN shop_id = 0 THEN orders ELSE 0 END"
    of_platform = f"SELECT {day}, 0, currency, status, {parents}, {money} {LEDGER}"  # nosec B608
    actual: list[Select] = [(rollups, ()), (of_shops, ()), (of_platform, ())]
    expected = [_compile(rows) for rows in _expected_days(ZoneInfo(state.time_zone))]
    yield from _compare_sums(PERIOD_KEYS, PERIOD_SUMS, actual, expected, limit, "day")


def _expected_days(zone: ZoneInfo) -> "Iterator[QuerySet[Any, Any]]":
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


def _sum_by_day(
    rows: "QuerySet[Any]", day: Any, shop: Any, currency: Any, status: Any, **sums: Any
) -> "QuerySet[Any, Any]":
    keys = {"k_day": day, "k_shop": shop, "k_currency": currency, "k_status": status}
    return _group(rows, keys, {f"s_{name}": sums.get(name, ZERO) for name in PERIOD_SUMS})


def _group(rows: "QuerySet[Any]", keys: dict[str, Any], sums: dict[str, Any]) -> "QuerySet[Any, Any]":
    groups: QuerySet[Any, Any] = rows.order_by().values(**keys).annotate(**sums).values_list(*keys, *sums)
    return groups


def _longer_periods(state: RollupState, grain: str, limit: int) -> Iterator[str]:
    """Compare months, or all time, with the sum of their days."""
    rows = "orders, revenue, refunds, customers FROM"
    where = f"WHERE generation = {state.generation} AND grain ="
    if grain == "all":
        start = "'0001-01-01'" if connection.vendor == "sqlite" else "DATE '0001-01-01'"
    elif connection.vendor == "sqlite":
        start = "substr(starts_on, 1, 8) || '01'"
    else:
        start = "date_trunc('month', starts_on)::date"
    actual = f"SELECT starts_on, shop_id, currency, status, {rows} {PERIOD_ROLLUPS} {where} '{grain}'"  # nosec B608
    expected = f"SELECT {start}, shop_id, currency, status, {rows} {PERIOD_ROLLUPS} {where} 'day'"  # nosec B608
    label = "month from" if grain == "month" else "all time from"
    yield from _compare_sums(PERIOD_KEYS, PERIOD_SUMS, [(actual, ())], [(expected, ())], limit, label)


def _products(state: RollupState, limit: int) -> Iterator[str]:
    columns = "product_id, shop_id, currency, units, stars, reviews"
    actual: list[Select] = [
        (f"SELECT {columns} FROM {PRODUCT_ROLLUPS} WHERE generation = {state.generation}", ()),  # noqa: S608  # nosec B608
        (f"SELECT {columns} FROM {LEDGER} WHERE product_id <> 0", ()),  # noqa: S608  # nosec B608
    ]
    sold = OrderLine.objects.filter(
        order__order_status="complete", order__parent__order_status="complete", order__parent__parent=None
    )
    keys: dict[str, Any] = {
        "k_product": F("product_id"),
        "k_shop": F("order__shop_id"),
        "k_currency": F("order__currency"),
    }
    units = _group(sold, keys, {"s_units": Sum("quantity"), "s_stars": ZERO, "s_reviews": ZERO})
    keys = {"k_product": F("product_id"), "k_shop": ZERO, "k_currency": EMPTY}
    sums = {"s_units": ZERO, "s_stars": Sum("rating"), "s_reviews": Count("pk")}
    stars = _group(Review.objects.visible(), keys, sums)
    yield from _compare_sums(PRODUCT_KEYS, PRODUCT_SUMS, actual, [_compile(units), _compile(stars)], limit, "product")


def _compare_sums(
    keys: Sequence[str], sums: Sequence[str], actual: list[Select], expected: list[Select], limit: int, label: str
) -> Iterator[str]:
    """Sum both sides by their keys and yield a sentence for each sum that differs."""
    statement = _comparison_statement(keys, sums, actual, expected, limit)
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for _, values in (*actual, *expected) for value in values])
        rows = cursor.fetchall()
    for row in rows:
        first, *others = row[: len(keys)]
        scope = ", ".join(
            f"{name} {value}" for name, value in zip(keys[1:], others, strict=True) if value not in (0, "")
        )
        for index, name in enumerate(sums):
            is_value, should_be = row[len(keys) + 2 * index :][:2]
            if is_value != should_be:
                yield f"{label} {first}, {scope or 'the platform'}: {name} is {is_value}, expected {should_be}."


def _comparison_statement(
    keys: Sequence[str], sums: Sequence[str], actual: list[Select], expected: list[Select], limit: int
) -> str:
    names = ", ".join((*keys, *sums))
    sides = [
        f"SELECT {names}, {side} AS is_expected "  # noqa: S608  # nosec B608
        f"FROM (SELECT {', '.join(f'NULL AS {name}' for name in names.split(', '))} "
        f"WHERE FALSE UNION ALL {' UNION ALL '.join(select for select, _ in selects)}) AS side_{side}"
        for side, selects in ((0, actual), (1, expected))
    ]
    pairs = ", ".join(f"SUM(CASE WHEN is_expected = {side} THEN {name} ELSE 0 END)" for name in sums for side in (0, 1))
    changed = " OR ".join(f"SUM(CASE WHEN is_expected = 1 THEN {name} ELSE -{name} END) <> 0" for name in sums)
    grouping = ", ".join(keys)
    return (
        f"SELECT {grouping}, {pairs} FROM ({' UNION ALL '.join(sides)}) AS sides GROUP BY {grouping} "  # noqa: S608  # nosec B608
        f"HAVING {changed} ORDER BY {grouping} LIMIT {limit}"
    )


def _first_orders(state: RollupState, limit: int) -> Iterator[str]:
    """Compare the first orders of shops, except those of customers with waiting ledger entries."""
    children = Order.objects.filter(parent__isnull=False, parent__parent=None).order_by()
    expected = _compile(
        children.values(k_shop=F("shop_id"), k_customer=F("customer_id"))
        .annotate(first=Min("parent__created_at"))
        .values_list("k_shop", "k_customer", "first")
    )
    is_aggregated = f"NOT EXISTS (SELECT 1 FROM {LEDGER} WHERE shop_id = shop AND customer_id = customer)"  # noqa: S608  # nosec B608
    actual = f"{_first_orders_select(state)} AND shop_id > 0"
    yield from _compare_first_orders((actual, ()), expected, is_aggregated, limit, "shop")


def _owner_groups(state: RollupState, limit: int) -> Iterator[str]:
    """Compare the first orders of owner groups with those of their shops; rows of former groups are ignored."""
    if not state.has_current_owner_groups:
        return
    owners = f"SELECT -owner_id FROM {OWNER_GROUP_SHOPS} WHERE generation = {state.generation}"  # noqa: S608  # nosec B608
    actual = f"{_first_orders_select(state)} AND shop_id IN ({owners})"
    firsts = GROUP_FIRST_ORDERS.format(clause=f"WHERE g.generation = {state.generation}")
    expected = f"SELECT shop_id, customer_id, first_at FROM ({firsts}) AS of_shops"  # noqa: S608  # nosec B608
    yield from _compare_first_orders((actual, ()), (expected, ()), "TRUE", limit, "owner group")


def _first_orders_select(state: RollupState) -> str:
    return f"SELECT shop_id, customer_id, first_at FROM {FIRST_ORDERS} WHERE generation = {state.generation}"  # noqa: S608  # nosec B608


def _compare_first_orders(actual: Select, expected: Select, where: str, limit: int, label: str) -> Iterator[str]:
    """Compare two SELECTs of a shop, a customer and the time of the first order."""
    statement = f"""
        WITH actual (shop, customer, first_at) AS ({actual[0]}), expected (shop, customer, first_at) AS ({expected[0]})
        SELECT shop, customer, MAX(actual_at), MAX(expected_at) FROM (
            SELECT shop, customer, first_at AS actual_at, NULL AS expected_at FROM actual
            UNION ALL SELECT shop, customer, NULL, first_at FROM expected
        ) AS sides
        WHERE {where}
        GROUP BY shop, customer HAVING COUNT(actual_at) <> COUNT(expected_at) OR MAX(actual_at) <> MAX(expected_at)
        ORDER BY shop, customer LIMIT {limit}
        """  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(statement, [*actual[1], *expected[1]])
        for shop, customer, actual_at, expected_at in cursor.fetchall():
            yield f"{label} {abs(shop)}, customer {customer}: first order is at {actual_at}, expected {expected_at}."


def _compile(rows: "QuerySet[Any, Any]") -> Select:
    statement, values = rows.query.sql_with_params()
    return statement, values
