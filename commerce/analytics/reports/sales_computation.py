"""Computation of a sales report from the orders and their lines: a few statements that see one snapshot.

Placed revenue is of orders in every status, revenue of complete ones, as `ledger.entries` defines it; both count on the
day the parent order was placed. Sales of products are the subtotals of the lines that count as units sold.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

from django.db.models import BigIntegerField, Case, Count, F, Q, QuerySet, Sum, When, Window
from django.db.models.functions import Coalesce, RowNumber, TruncDate

from commerce.analytics.aggregation.id_lists import in_ids
from commerce.analytics.models import SalesReport
from commerce.orders.models import Order, OrderLine
from shared import transactions

MAX_ROWS = 1000  # of each ranking; by currency and language where a ranking has them
COMPLETE = Order.Status.COMPLETE
IS_SOLD = Q(order_status=COMPLETE, parent__order_status=COMPLETE, parent__isnull=False)
IS_COMPLETE_PARENT = Q(order_status=COMPLETE, parent__isnull=True)
SOLD_LINES = Q(
    order__order_status=COMPLETE, order__parent__order_status=COMPLETE, order__parent__parent=None,
    order__parent__isnull=False,
)  # fmt: skip

# By currency, then language: rows of ids, units and revenue.
RankingData = dict[str, dict[str, list[list[int]]]]


class DayData(TypedDict):
    """Sales of a day: the shops' complete orders and their revenue, and the placed revenue by status."""

    sold: int
    revenue: int
    placed: dict[str, int]


class CustomerData(TypedDict):
    """Customers with orders, those with several, and by currency the rows of id, orders and revenue of the best."""

    buyers: int
    returning: int
    top: dict[str, list[list[int]]]


def count_orders(shop_ids: Sequence[int] | None, *, limit: int) -> int:
    """Return the number of orders that a computation reads, at most `limit`."""
    return _orders(shop_ids).order_by()[:limit].count()


def compute_sales(report: SalesReport, *, zone: ZoneInfo) -> None:
    """Set the columns of the report that hold sales."""
    with transactions.read_snapshot():
        report.orders = _orders(report.shop_ids).count()
        report.days = _days(report.shop_ids, zone)
        report.customers = _customers(report.shop_ids)
        report.products = _rank_lines(report.shop_ids, "product__language", "product_id")
        report.categories = _rank_lines(
            report.shop_ids, "product__categories__language", "product__categories", "order__shop_id"
        )
        report.attributes = _rank_lines(
            report.shop_ids,
            "variation__value_links__value__attribute__language",
            "variation__value_links__value_id",
        )


def _orders(shop_ids: Sequence[int] | None) -> "QuerySet[Order]":
    return Order.objects.all() if shop_ids is None else Order.objects.filter(shop_id__in=in_ids(shop_ids))


def _shop_orders(shop_ids: Sequence[int] | None) -> "QuerySet[Order]":
    return _orders(shop_ids).filter(parent__isnull=False, parent__parent=None)


def _days(shop_ids: Sequence[int] | None, zone: ZoneInfo) -> dict[str, dict[str, DayData]]:
    """Return the sales by currency and day."""
    found: dict[str, dict[str, DayData]] = {}

    def add(currency: str, day: date, status: str, placed: int, revenue: int, sold: int) -> None:
        data = found.setdefault(currency, {}).setdefault(day.isoformat(), DayData(sold=0, revenue=0, placed={}))
        data["placed"][status] = data["placed"].get(status, 0) + int(placed)
        data["revenue"] += int(revenue)
        data["sold"] += sold

    rows = (
        _shop_orders(shop_ids)
        .annotate(day=TruncDate("parent__created_at", tzinfo=zone))
        .values_list("currency", "day", "order_status")
        .annotate(
            placed=Sum("total"),
            revenue=Coalesce(Sum("total", filter=IS_SOLD), 0),
            sold=Count("pk", filter=IS_SOLD),
        )
        .order_by()
    )
    for row in rows:
        add(*row)
    if shop_ids is None:
        parents = Order.objects.filter(parent=None).annotate(day=TruncDate("created_at", tzinfo=zone))
        fees = parents.values_list("currency", "day", "order_status").annotate(
            fees=Sum(F("sales_tax") + F("delivery_fee"))
        )
        for currency, day, status, placed in fees.order_by():
            add(currency, day, status, placed, placed if status == COMPLETE else 0, 0)
    return found


def _customers(shop_ids: Sequence[int] | None) -> CustomerData:
    """Count the customers by their orders of every status, and rank them by revenue.

    An order is a parent, also where several of the shops deliver parts of it.
    """
    orders: QuerySet[Order]
    if shop_ids is None:
        orders = Order.objects.filter(Q(parent=None) | Q(parent__parent=None))
        count: Count = Count("pk", filter=Q(parent=None))
        earned = [When(IS_SOLD, then="total"), When(IS_COMPLETE_PARENT, then=F("sales_tax") + F("delivery_fee"))]
    else:
        orders = _shop_orders(shop_ids)
        count = Count("parent", distinct=True)
        earned = [When(IS_SOLD, then="total")]
    revenue = Sum(Case(*earned, default=0, output_field=BigIntegerField()))
    rows = orders.values("currency", "customer_id").annotate(count=count, revenue=revenue).filter(revenue__gt=0)
    top: dict[str, list[list[int]]] = {}
    for row in _best(rows, "currency", "customer_id").values_list("currency", "customer_id", "count", "revenue"):
        top.setdefault(row[0], []).append([int(number) for number in row[1:]])
    counts = orders.values("customer_id").annotate(count=count).filter(count__gt=0).order_by()
    totals = counts.aggregate(buyers=Count("customer_id"), returning=Count("customer_id", filter=Q(count__gt=1)))
    return CustomerData(buyers=totals["buyers"], returning=totals["returning"], top=top)


def _rank_lines(shop_ids: Sequence[int] | None, language: str, *keys: str) -> RankingData:
    """Rank what `keys` identify by the revenue of the lines that were sold, in each currency and language."""
    lines = OrderLine.objects.filter(SOLD_LINES, **{f"{keys[0]}__isnull": False})
    if shop_ids is not None:
        lines = lines.filter(order__shop_id__in=in_ids(shop_ids))
    groups = ("order__currency", language, *keys)
    rows = lines.values(*groups).annotate(units=Sum("quantity"), revenue=Sum("subtotal"))
    ranking: RankingData = {}
    for currency, code, *numbers in _best(rows, *groups).values_list(*groups, "units", "revenue"):
        ranking.setdefault(currency, {}).setdefault(code, []).append([int(number) for number in numbers])
    return ranking


def _best(rows: "QuerySet[Any, Any]", *groups: str) -> "QuerySet[Any, Any]":
    """Return the MAX_ROWS with the most revenue of each partition: all but the last keys, which break ties."""
    partition = [name for name in groups if name.endswith(("currency", "language"))]
    order: list[Any] = [F("revenue").desc(), *(name for name in groups if name not in partition)]
    rank = Window(RowNumber(), partition_by=[F(name) for name in partition], order_by=order)
    best: QuerySet[Any, Any] = rows.annotate(rank=rank).filter(rank__lte=MAX_ROWS).order_by("rank")
    return best
