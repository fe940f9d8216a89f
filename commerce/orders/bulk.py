"""Orders of the past in bulk, for the demo: millions of rows by the database's own quickest way in, with the figures
that the services would have left behind. Stock is not taken: what is in stock today is what is left."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from random import Random
from typing import Any, NamedTuple, TypeVar

from django.db import connection, models, transaction

from commerce.catalog.models import Product, Variation
from commerce.orders.models import Order, OrderLine, Refund, tracking_number
from commerce.orders.statuses import STOCK_RETURNED, parent_status
from commerce.shops.models import Shop

CHUNK = 10_000  # orders a transaction
SQLITE_CACHE_KIB = 128 * 1024  # tracking numbers and customers come in no order: their indexes are written all over

_ORDER = (
    "id", "parent_id", "shop_id", "customer_id", "tracking_number", "order_status", "currency", "amount", "sales_tax",
    "delivery_fee", "discount", "total", "paid_total", "refunded_total", "payment_gateway", "customer_contact",
    "billing_address", "shipping_address", "created_at", "updated_at",
)  # fmt: skip
_LINE = ("order_id", "product_id", "variation_id", "quantity", "unit_price", "subtotal")
_REFUND = ("order_id", "customer_id", "shop_id", "amount", "status", "reason", "created_at", "updated_at")

T = TypeVar("T")


class PastLine(NamedTuple):
    """So many of one product, at the price of the day in minor units."""

    shop_id: int
    product_id: int
    quantity: int
    unit_price: int
    variation_id: int | None = None


class PastOrder(NamedTuple):
    """A whole order: the lines of its shops, and how each shop's part ended (by shop id, one for each shop of `lines`).
    A part that ended as refunded was paid back whole. Money in minor units."""

    customer_id: int
    created_at: datetime
    currency: str
    lines: Sequence[PastLine]
    statuses: Mapping[int, str]
    sales_tax: int = 0
    delivery_fee: int = 0
    payment_gateway: str = "CASH_ON_DELIVERY"


def insert_past_orders(orders: Iterable[PastOrder], *, random: Random) -> Iterator[int]:
    """Inserts them in the order they come, a transaction for each CHUNK, in memory that does not grow with their
    number. Yields how many each transaction brought. `random` draws the tracking numbers. It and `orders` are asked in
    another thread, for the next chunk while the database takes this one: neither may use the database."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA cache_size = -{SQLITE_CACHE_KIB}")
    for chunk in _one_ahead(_chunks(iter(orders), random)):
        with transaction.atomic():
            _insert_chunk(chunk)
        yield len(chunk.orders)


class _Chunk(NamedTuple):
    """Orders, and the tracking numbers of them and of their parts."""

    orders: Sequence[PastOrder]
    numbers: Sequence[str]


def _chunks(orders: Iterator[PastOrder], random: Random) -> Iterator[_Chunk]:
    while some := list(islice(orders, CHUNK)):
        count = sum(1 + len(order.statuses) for order in some)
        yield _Chunk(some, [tracking_number(random.getrandbits(76)) for _ in range(count)])


def _insert_chunk(chunk: _Chunk) -> None:
    rows = _Rows(iter(chunk.numbers), _reserve_order_ids(len(chunk.numbers)))
    for order in chunk.orders:
        rows.add(order)
    _insert(Order, _ORDER, rows.orders)
    _insert(OrderLine, _LINE, rows.lines)
    _insert(Refund, _REFUND, rows.refunds)
    _add(Shop, "orders_count", rows.orders_of_shop)
    _add(Product, "sold_quantity", rows.sold_of_product)
    _add(Variation, "sold_quantity", rows.sold_of_variation)


class _Rows:
    """The rows of one chunk, and what they add to the figures of shops and products."""

    def __init__(self, numbers: Iterator[str], ids: Iterator[int]) -> None:
        self._numbers, self._ids = numbers, ids
        self._adapt = connection.ops.adapt_datetimefield_value
        self.orders: list[tuple[Any, ...]] = []
        self.lines: list[tuple[Any, ...]] = []
        self.refunds: list[tuple[Any, ...]] = []
        self.orders_of_shop: Counter[int] = Counter()
        self.sold_of_product: Counter[int] = Counter()
        self.sold_of_variation: Counter[int] = Counter()

    def add(self, order: PastOrder) -> None:
        parent_id = next(self._ids)
        at = self._adapt(order.created_at)
        amounts: dict[int, int] = defaultdict(int)
        for line in order.lines:
            amounts[line.shop_id] += line.quantity * line.unit_price
        child_ids = {shop_id: next(self._ids) for shop_id in sorted(amounts)}
        refunded = {shop_id: amounts[shop_id] if order.statuses[shop_id] == "refunded" else 0 for shop_id in amounts}
        fees, back = (order.sales_tax, order.delivery_fee), sum(refunded.values())
        whole = parent_status(set(order.statuses.values()))
        self._add_order(order, at, parent_id, (None, None), whole, sum(amounts.values()), fees, back)
        for shop_id, child_id in child_ids.items():
            status, amount, back = order.statuses[shop_id], amounts[shop_id], refunded[shop_id]
            self._add_order(order, at, child_id, (parent_id, shop_id), status, amount, (0, 0), back)
            if back:
                refund = (child_id, order.customer_id, shop_id, back, "approved", "Sent back.", at, at)
                self.refunds.append(refund)
            self.orders_of_shop[shop_id] += 1
        for line in order.lines:
            self._add_line(line, child_ids[line.shop_id], sold=order.statuses[line.shop_id] not in STOCK_RETURNED)

    def _add_order(
        self,
        order: PastOrder,
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

    def _add_line(self, line: PastLine, order_id: int, *, sold: bool) -> None:
        subtotal = line.quantity * line.unit_price
        self.lines.append((order_id, line.product_id, line.variation_id, line.quantity, line.unit_price, subtotal))
        if sold:
            self.sold_of_product[line.product_id] += line.quantity
            if line.variation_id:
                self.sold_of_variation[line.variation_id] += line.quantity


def _one_ahead(made: Iterator[T]) -> Iterator[T]:
    """The same, each made in a thread while whoever asks is at the one before."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, made, None)
        while (item := following.result()) is not None:
            following = thread.submit(next, made, None)
            yield item


def _reserve_order_ids(count: int) -> Iterator[int]:
    """So many ids that nobody else gets, a parent's below its children's, as everybody locks them in that order."""
    table = Order._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            sequence = "(SELECT pg_get_serial_sequence(%s, 'id')::regclass)"  # looked up once, not for each id
            cursor.execute(f"SELECT nextval({sequence}) FROM generate_series(1, %s)", [table, count])  # noqa: S608  # nosec B608
            return iter([row[0] for row in cursor.fetchall()])
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        last = (cursor.fetchone() or (0,))[0]
    return iter(range(last + 1, last + 1 + count))  # the transaction has the write lock since it began


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


def _add(model: type[models.Model], column: str, counts: Mapping[int, int]) -> None:
    update = f'UPDATE "{model._meta.db_table}" SET "{column}" = "{column}" + %s WHERE id = %s'  # noqa: S608  # nosec B608
    with connection.cursor() as cursor:
        cursor.executemany(update, [(count, pk) for pk, count in sorted(counts.items())])
