"""Every figure against the rows that it is made of, by the database, in one statement each and so at one moment.

What the figures should be is said here a second time, in Django's words, so that a mistake in the triggers' SQL
(`contributions`) shows.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import CharField, Count, F, IntegerField, Min, QuerySet, Sum, Value
from django.db.models.functions import TruncDate

from commerce.analytics import chains
from commerce.analytics.chains import CHAINS, FIRST
from commerce.analytics.folding import ENTRIES, FIGURES, PRODUCTS
from commerce.analytics.models import Books
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api import snapshots

FIGURE_KEYS, FIGURE_SUMS = ("day", "shop", "currency", "status"), ("orders", "revenue", "refunds", "customers")
PRODUCT_KEYS, PRODUCT_SUMS = ("product", "shop", "currency"), ("units", "stars", "reviews")
NONE, NOBODY = Value(0, IntegerField()), Value("", CharField())

Select = tuple[str, Sequence[Any]]


def differences(*, most: int = 1000) -> list[str]:
    """What is told wrongly, one sentence each; at most so many of each kind."""
    with snapshots.read():
        books = Books.objects.get(pk=1)
        return [
            *_days(books, most),
            *_longer(books, "month", most),
            *_longer(books, "all", most),
            *_products(books, most),
            *_first_orders(books, most),
            *_chains(books, most),
        ]


def _days(books: Books, most: int) -> Iterator[str]:
    zone = ZoneInfo(books.time_zone)
    if connection.vendor == "sqlite":
        day = f"django_datetime_cast_date(happened_at, '{books.time_zone}', 'UTC')"
    else:
        day = f"(happened_at AT TIME ZONE '{books.time_zone}')::date"
    money = "revenue, refunds, customers FROM"
    folded = (
        f"SELECT starts_on, shop_id, currency, status, orders, {money} {FIGURES} "  # nosec B608
        f"WHERE generation = {books.generation} AND grain = 'day'"
    )
    of_shops = f"SELECT {day}, shop_id, currency, status, orders, {money} {ENTRIES} WHERE shop_id <> 0"  # nosec B608
    parents = "CASE WHEN shop_id = 0 THEN orders ELSE 0 END"
    of_platform = f"SELECT {day}, 0, currency, status, {parents}, {money} {ENTRIES}"  # nosec B608
    told: list[Select] = [(folded, ()), (of_shops, ()), (of_platform, ())]
    yield from _compared(FIGURE_KEYS, FIGURE_SUMS, told, [_select(rows) for rows in _true_days(zone)], most, "day")


def _true_days(zone: ZoneInfo) -> "Iterator[QuerySet[Any, Any]]":
    """The figures of each day, shop and state as the shop's tables have them."""
    parents = Order.objects.filter(parent=None)
    parts = Order.objects.filter(parent__isnull=False, parent__parent=None)
    sold = parts.filter(order_status="complete", parent__order_status="complete")
    own, parent = TruncDate("created_at", tzinfo=zone), TruncDate("parent__created_at", tzinfo=zone)
    fees = Sum(F("sales_tax") + F("delivery_fee"))
    complete = parents.filter(order_status="complete")
    approved = Refund.objects.filter(status="approved")
    decided = TruncDate("updated_at", tzinfo=zone)
    customers = User.objects.filter(role=Role.CUSTOMER)
    currency, status = F("currency"), F("order_status")
    yield _row(parents, own, NONE, currency, status, orders=Count("pk"))
    yield _row(complete, own, NONE, currency, status, revenue=fees)
    yield _row(parts, parent, F("shop_id"), currency, status, orders=Count("pk"))
    yield _row(sold, parent, F("shop_id"), currency, status, revenue=Sum("total"))
    yield _row(sold, parent, NONE, currency, status, revenue=Sum("total"))
    yield _row(approved, decided, NONE, F("order__currency"), NOBODY, refunds=Sum("amount"))
    of_shops = approved.filter(shop__isnull=False)
    yield _row(of_shops, decided, F("shop_id"), F("order__currency"), NOBODY, refunds=Sum("amount"))
    yield _row(customers, own, NONE, NOBODY, NOBODY, customers=Count("pk"))


def _row(rows: "QuerySet[Any]", day: Any, shop: Any, currency: Any, status: Any, **sums: Any) -> "QuerySet[Any, Any]":
    keys = {"k_day": day, "k_shop": shop, "k_currency": currency, "k_status": status}
    return _grouped(rows, keys, {f"s_{name}": sums.get(name, NONE) for name in FIGURE_SUMS})


def _grouped(rows: "QuerySet[Any]", keys: dict[str, Any], sums: dict[str, Any]) -> "QuerySet[Any, Any]":
    grouped: QuerySet[Any, Any] = rows.order_by().values(**keys).annotate(**sums).values_list(*keys, *sums)
    return grouped


def _longer(books: Books, grain: str, most: int) -> Iterator[str]:
    """Months, and all time, against the days that they are made of."""
    rows = "orders, revenue, refunds, customers FROM"
    where = f"WHERE generation = {books.generation} AND grain ="
    if grain == "all":
        start = "'0001-01-01'" if connection.vendor == "sqlite" else "DATE '0001-01-01'"
    elif connection.vendor == "sqlite":
        start = "substr(starts_on, 1, 8) || '01'"
    else:
        start = "date_trunc('month', starts_on)::date"
    told = f"SELECT starts_on, shop_id, currency, status, {rows} {FIGURES} {where} '{grain}'"  # nosec B608
    true = f"SELECT {start}, shop_id, currency, status, {rows} {FIGURES} {where} 'day'"  # nosec B608
    name = "month from" if grain == "month" else "all time from"
    yield from _compared(FIGURE_KEYS, FIGURE_SUMS, [(told, ())], [(true, ())], most, name)


def _products(books: Books, most: int) -> Iterator[str]:
    columns = "product_id, shop_id, currency, units, stars, reviews"
    told: list[Select] = [
        (f"SELECT {columns} FROM {PRODUCTS} WHERE generation = {books.generation}", ()),  # noqa: S608  # nosec B608
        (f"SELECT {columns} FROM {ENTRIES} WHERE product_id <> 0", ()),  # noqa: S608  # nosec B608
    ]
    sold = OrderLine.objects.filter(
        order__order_status="complete", order__parent__order_status="complete", order__parent__parent=None
    )
    keys: dict[str, Any] = {
        "k_product": F("product_id"),
        "k_shop": F("order__shop_id"),
        "k_currency": F("order__currency"),
    }
    units = _grouped(sold, keys, {"s_units": Sum("quantity"), "s_stars": NONE, "s_reviews": NONE})
    keys = {"k_product": F("product_id"), "k_shop": NONE, "k_currency": NOBODY}
    sums = {"s_units": NONE, "s_stars": Sum("rating"), "s_reviews": Count("pk")}
    stars = _grouped(Review.objects.visible(), keys, sums)
    yield from _compared(PRODUCT_KEYS, PRODUCT_SUMS, told, [_select(units), _select(stars)], most, "product")


def _compared(
    keys: Sequence[str], sums: Sequence[str], told: list[Select], true: list[Select], most: int, what: str
) -> Iterator[str]:
    """Both sides added up by their keys; the keys of which they differ."""
    names = ", ".join((*keys, *sums))
    sides = [
        f"SELECT {names}, {side} AS is_true FROM (SELECT {', '.join(f'NULL AS {name}' for name in names.split(', '))} "  # noqa: S608  # nosec B608
        f"WHERE FALSE UNION ALL {' UNION ALL '.join(select for select, _ in selects)}) AS side_{side}"
        for side, selects in ((0, told), (1, true))
    ]
    pairs = ", ".join(f"SUM(CASE WHEN is_true = {side} THEN {name} ELSE 0 END)" for name in sums for side in (0, 1))
    changed = " OR ".join(f"SUM(CASE WHEN is_true = 1 THEN {name} ELSE -{name} END) <> 0" for name in sums)
    grouped = ", ".join(keys)
    statement = (
        f"SELECT {grouped}, {pairs} FROM ({' UNION ALL '.join(sides)}) AS sides GROUP BY {grouped} "  # noqa: S608  # nosec B608
        f"HAVING {changed} ORDER BY {grouped} LIMIT {most}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for _, values in (*told, *true) for value in values])
        rows = cursor.fetchall()
    for row in rows:
        first, *others = row[: len(keys)]
        where = ", ".join(
            f"{name} {value}" for name, value in zip(keys[1:], others, strict=True) if value not in (0, "")
        )
        for place, name in enumerate(sums):
            is_told, is_true = row[len(keys) + 2 * place :][:2]
            if is_told != is_true:
                yield f"{what} {first}, {where or 'the platform'}: {name} are told as {is_told}, and are {is_true}."


def _first_orders(books: Books, most: int) -> Iterator[str]:
    """But for those customers whose orders are not all folded."""
    parts = Order.objects.filter(parent__isnull=False, parent__parent=None).order_by()
    true, values = _select(
        parts.values(k_shop=F("shop_id"), k_customer=F("customer_id"))
        .annotate(first=Min("parent__created_at"))
        .values_list("k_shop", "k_customer", "first")
    )
    is_folded = f"NOT EXISTS (SELECT 1 FROM {ENTRIES} WHERE shop_id = shop AND customer_id = customer)"  # noqa: S608  # nosec B608
    told = f"SELECT shop_id, customer_id, first_at FROM {FIRST} WHERE generation = {books.generation} AND shop_id > 0"  # noqa: S608  # nosec B608
    yield from _compared_firsts((told, ()), (true, values), is_folded, most, "shop")


def _chains(books: Books, most: int) -> Iterator[str]:
    """Against the first orders of their shops; those of what is no chain any more are not looked at."""
    if not books.keeps_chains:
        return
    made = f"SELECT -owner_id FROM {CHAINS} WHERE generation = {books.generation}"  # noqa: S608  # nosec B608
    told = f"SELECT shop_id, customer_id, first_at FROM {FIRST} WHERE generation = {books.generation}"  # noqa: S608  # nosec B608
    firsts = chains.FIRST_ORDERS.format(which=f"WHERE c.generation = {books.generation}")
    true = f"SELECT shop_id, customer_id, first_at FROM ({firsts}) AS of_shops"  # noqa: S608  # nosec B608
    yield from _compared_firsts((f"{told} AND shop_id IN ({made})", ()), (true, ()), "TRUE", most, "chain")


def _compared_firsts(told: Select, true: Select, where: str, most: int, what: str) -> Iterator[str]:
    """Both select a shop, a customer, and when they first ordered there."""
    statement = f"""
        WITH told (shop, customer, first_at) AS ({told[0]}), truth (shop, customer, first_at) AS ({true[0]})
        SELECT shop, customer, MAX(told_at), MAX(true_at) FROM (
            SELECT shop, customer, first_at AS told_at, NULL AS true_at FROM told
            UNION ALL SELECT shop, customer, NULL, first_at FROM truth
        ) AS sides
        WHERE {where}
        GROUP BY shop, customer HAVING COUNT(told_at) <> COUNT(true_at) OR MAX(told_at) <> MAX(true_at)
        ORDER BY shop, customer LIMIT {most}
        """  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.execute(statement, [*told[1], *true[1]])
        for shop, customer, told_at, true_at in cursor.fetchall():
            whose = f"{what} {abs(shop)}, customer {customer}"
            yield f"{whose}: the first order is told as of {told_at}, and is of {true_at}."


def _select(rows: "QuerySet[Any, Any]") -> Select:
    statement, values = rows.query.sql_with_params()
    return statement, values
