"""Bulk insertion of past orders for the demo: millions of rows by the fastest way that the database offers.

Counters of shops and products end as the services would leave them. Stock is not taken: the quantities of the products
are what is left today.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from random import Random
from typing import Any, NamedTuple, TypeVar

from django.db import connection, models, transaction

from commerce.catalog.models import Product, Variation
from commerce.orders.models import Order, OrderLine, Refund, format_tracking_number
from commerce.orders.statuses import STOCK_RETURNED, parent_status
from commerce.shops.models import Shop

ORDERS_PER_TRANSACTION = 10_000
SQLITE_CACHE_KIB = 128 * 1024  # tracking numbers and customers are in random order: their indexes are written all over

ORDER_COLUMNS = (
    "id", "parent_id", "shop_id", "customer_id", "tracking_number", "order_status", "currency", "amount", "sales_tax",
    "delivery_fee", "discount", "total", "paid_total", "refunded_total", "payment_gateway", "customer_contact",
    "billing_address", "shipping_address", "created_at", "updated_at",
)  # fmt: skip
LINE_COLUMNS = ("order_id", "product_id", "variation_id", "quantity", "unit_price", "subtotal")
REFUND_COLUMNS = ("order_id", "customer_id", "shop_id", "amount", "status", "reason", "created_at", "updated_at")

T = TypeVar("T")


class BulkOrderLine(NamedTuple):
    """A quantity of one product, at the price of that day in minor units."""

    shop_id: int
    product_id: int
    quantity: int
    unit_price: int
    variation_id: int | None = None


class BulkOrder(NamedTuple):
    """A parent order: the lines of all shops, and the final status of each shop's child by shop id.

    A child with the status refunded was refunded entirely. Money is in minor units.
    """

    customer_id: int
    created_at: datetime
    currency: str
    lines: Sequence[BulkOrderLine]
    statuses: Mapping[int, str]
    sales_tax: int = 0
    delivery_fee: int = 0
    payment_gateway: str = "CASH_ON_DELIVERY"


def insert_orders(orders: Iterable[BulkOrder], *, random: Random) -> Iterator[int]:
    """Insert orders in their order and yield how many each transaction inserted.

    Memory does not grow with the number of orders. `random` draws the tracking numbers. A second thread consumes it
    and `orders` for the next chunk while the database takes this one: neither may use the database.
    """
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA cache_size = -{SQLITE_CACHE_KIB}")
    for chunk in _prefetch_one(_chunks(iter(orders), random)):
        with transaction.atomic():
            _insert_chunk(chunk)
        yield len(chunk.orders)


class _OrderChunk(NamedTuple):
    """Parent orders, and the tracking numbers of them and of their children."""

    orders: Sequence[BulkOrder]
    numbers: Sequence[str]


def _chunks(orders: Iterator[BulkOrder], random: Random) -> Iterator[_OrderChunk]:
    while chunk := list(islice(orders, ORDERS_PER_TRANSACTION)):
        count = sum(1 + len(order.statuses) for order in chunk)
        yield _OrderChunk(chunk, [format_tracking_number(random.getrandbits(76)) for _ in range(count)])


def _insert_chunk(chunk: _OrderChunk) -> None:
    rows = _OrderRows(iter(chunk.numbers), _reserve_order_ids(len(chunk.numbers)))
    for order in chunk.orders:
        rows.add(order)
    _insert(Order, ORDER_COLUMNS, rows.orders)
    _insert(OrderLine, LINE_COLUMNS, rows.lines)
    _insert(Refund, REFUND_COLUMNS, rows.refunds)
    _add_to_counters(Shop, "orders_count", rows.orders_by_shop)
    _add_to_counters(Product, "sold_quantity", rows.sold_by_product)
    _add_to_counters(Variation, "sold_quantity", rows.sold_by_variation)


class _OrderRows:
    """The rows of one chunk, and what they add to the counters of shops and products."""

    def __init__(self, numbers: Iterator[str], ids: Iterator[int]) -> None:
        self._numbers, self._ids = numbers, ids
        self._adapt = connection.ops.adapt_datetimefield_value
        self.orders: list[tuple[Any, ...]] = []
        self.lines: list[tuple[Any, ...]] = []
        self.refunds: list[tuple[Any, ...]] = []
        self.orders_by_shop: Counter[int] = Counter()
        self.sold_by_product: Counter[int] = Counter()
        self.sold_by_variation: Counter[int] = Counter()

    def add(self, order: BulkOrder) -> None:
        parent_id = next(self._ids)
        at = self._adapt(order.created_at)
        amounts: dict[int, int] = defaultdict(int)
        for line in order.lines:
            amounts[line.shop_id] += line.quantity * line.unit_price
        child_ids = {shop_id: next(self._ids) for shop_id in sorted(amounts)}
        refunded = {shop_id: amounts[shop_id] if order.statuses[shop_id] == "refunded" else 0 for shop_id in amounts}
        fees, refund_sum = (order.sales_tax, order.delivery_fee), sum(refunded.values())
        status: str = parent_status(set(order.statuses.values()))
        self._add_order(order, at, parent_id, (None, None), status, sum(amounts.values()), fees, refund_sum)
        for shop_id, child_id in child_ids.items():
            status, amount, refund = order.statuses[shop_id], amounts[shop_id], refunded[shop_id]
            self._add_order(order, at, child_id, (parent_id, shop_id), status, amount, (0, 0), refund)
            if refund:
                row = (child_id, order.customer_id, shop_id, refund, "approved", "Sent back.", at, at)
                self.refunds.append(row)
            self.orders_by_shop[shop_id] += 1
        for line in order.lines:
            is_sold = order.statuses[line.shop_id] not in STOCK_RETURNED
            self._add_line(line, child_ids[line.shop_id], is_sold=is_sold)

    def _add_order(
        self,
        order: BulkOrder,
        at: Any,
        order_id: int,
        parent_and_shop: tuple[int | None, int | None],
        status: str,
        amount: int,
        fees: tuple[int, int],
        refunded: int,
    ) -> None:
        total = amount + sum(fees)
        row = (
            order_id, *parent_and_shop, order.customer_id, next(self._numbers), str(status), order.currency, amount,
            *fees, 0, total, total, refunded, order.payment_gateway, "", "{}", "{}", at, at,
        )  # fmt: skip
        self.orders.append(row)

    def _add_line(self, line: BulkOrderLine, order_id: int, *, is_sold: bool) -> None:
        subtotal = line.quantity * line.unit_price
        self.lines.append((order_id, line.product_id, line.variation_id, line.quantity, line.unit_price, subtotal))
        if is_sold:
            self.sold_by_product[line.product_id] += line.quantity
            if line.variation_id:
                self.sold_by_variation[line.variation_id] += line.quantity


def _prefetch_one(items: Iterator[T]) -> Iterator[T]:
    """Yield the items, computing the next one in a thread while the caller handles the present one."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, items, None)
        while (item := following.result()) is not None:
            following = thread.submit(next, items, None)
            yield item


def _reserve_order_ids(count: int) -> Iterator[int]:
    """Reserve ids that no other transaction gets.

    A parent's id is below those of its children, since row locks are taken in the order of ids.
    """
    table = Order._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            sequence = "(SELECT pg_get_serial_sequence(%s, 'id')::regclass)"  # looked up once, not for each id
            cursor.execute(f"SELECT nextval({sequence}) FROM generate_series(1, %s)", [table, count])  # noqa: S608  # nosec B608
            return iter([row[0] for row in cursor.fetchall()])
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        last = (cursor.fetchone() or (0,))[0]
    return iter(range(last + 1, last + 1 + count))  # the transaction holds SQLite's write lock from its start


def _insert(model: type[models.Model], columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    quoted = ", ".join(f'"{column}"' for column in columns)
    target = f'"{model._meta.db_table}" ({quoted})'
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {target} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        else:
            marks = ", ".join(["%s"] * len(columns))
            cursor.executemany(f"INSERT INTO {target} VALUES ({marks})", rows)  # noqa: S608  # nosec B608


def _add_to_counters(model: type[models.Model], column: str, counts: Mapping[int, int]) -> None:
    update = f'UPDATE "{model._meta.db_table}" SET "{column}" = "{column}" + %s WHERE id = %s'  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.executemany(update, [(count, pk) for pk, count in sorted(counts.items())])
