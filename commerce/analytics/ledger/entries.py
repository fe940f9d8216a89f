"""The SQL of ledger entries, valid in both databases.

Each `select_...` function returns a SELECT of the ledger's columns (`COLUMNS`). The caller names the tables: triggers
pass the rows before and after a write, a rebuild passes the tables themselves. `aggregation.reconcile` states the same
rules a second time, with the ORM, to detect mistakes here.

* An order is a tree of a parent and its shops' orders, all of which count on the parent's day. A shop's order whose
  parent is missing counts for nothing; foreign keys are deferred, so a parent may be missing for a while.
* Revenue is the total of a shop's order that is complete and has a complete parent; and, for the platform, the tax and
  delivery fee of a complete parent.
* A refund counts once it is approved, on the day of the approval, in its order's currency.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from commerce.analytics.models import LedgerEntry, LedgerSource
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Review
from shared.accounts.models import User

LEDGER = LedgerEntry._meta.db_table
ORDERS, LINES, REFUNDS = (model._meta.db_table for model in (Order, OrderLine, Refund))
REVIEWS, USERS = Review._meta.db_table, User._meta.db_table

KEYS = ("source", "source_id", "happened_at", "shop_id", "currency", "status", "customer_id", "product_id")
MEASURES = ("orders", "revenue", "refunds", "customers", "units", "stars", "reviews")
COLUMNS = (*KEYS, *MEASURES)

# The columns that entries depend on, by table.
ORDER_COLUMNS = (
    "id", "parent_id", "shop_id", "customer_id", "order_status", "currency", "total", "sales_tax", "delivery_fee",
    "created_at",
)  # fmt: skip
LINE_COLUMNS = ("id", "order_id", "product_id", "quantity")
REFUND_COLUMNS = ("id", "order_id", "shop_id", "amount", "status", "updated_at")
USER_COLUMNS = ("id", "role", "created_at")
REVIEW_COLUMNS = ("id", "product_id", "rating", "deleted_at", "hidden_at", "created_at")


def _opaque(condition: str) -> str:
    """Return the condition in a form that planners do not analyze.

    They would look for an index, where better ones exist by id, or assume that hardly any row matches.
    """
    return f"CASE WHEN {condition} THEN TRUE ELSE FALSE END"


IS_SOLD = _opaque("c.order_status = 'complete' AND r.order_status = 'complete'")
IS_PARENT = _opaque("r.parent_id IS NULL")
IS_APPROVED = _opaque("f.status = 'approved'")


def select_parent_orders(where: str, *, orders: str = ORDERS, sign: str = "") -> str:
    """Return the SELECT of the entries of parent orders `r`."""
    fees = "CASE WHEN r.order_status = 'complete' THEN r.sales_tax + r.delivery_fee ELSE 0 END"
    return _select(
        LedgerSource.ORDERS, "r.id", "r.created_at", currency="r.currency", status="r.order_status", sign=sign,
        measures={"orders": "1", "revenue": fees}, tables=f"{orders} r", where=f"{IS_PARENT} AND {where}",
    )  # fmt: skip


def select_shop_orders(where: str, *, children: str = ORDERS, parents: str = ORDERS, sign: str = "") -> str:
    """Return the SELECT of the entries of shops' orders `c` with their parents `r`."""
    revenue = f"CASE WHEN {IS_SOLD} THEN c.total ELSE 0 END"
    return _select(
        LedgerSource.ORDERS, "r.id", "r.created_at", shop="c.shop_id", currency="c.currency", status="c.order_status",
        customer="c.customer_id", sign=sign, measures={"orders": "1", "revenue": revenue},
        tables=f"{children} c JOIN {parents} r ON r.id = c.parent_id", where=f"{IS_PARENT} AND {where}",
    )  # fmt: skip


def select_order_lines(
    where: str, *, rows: str = LINES, children: str = ORDERS, parents: str = ORDERS, sign: str = ""
) -> str:
    """Return the SELECT of the entries of lines `l` in sold orders `c` with their parents `r`."""
    return _select(
        LedgerSource.ORDERS, "r.id", "r.created_at", shop="c.shop_id", currency="c.currency", product="l.product_id",
        sign=sign, measures={"units": "l.quantity"},
        tables=f"{children} c JOIN {parents} r ON r.id = c.parent_id JOIN {rows} l ON l.order_id = c.id",
        where=f"{IS_PARENT} AND {IS_SOLD} AND {where}",
    )  # fmt: skip


def select_refunds(where: str, *, rows: str = REFUNDS, orders: str = ORDERS, sign: str = "") -> str:
    """Return the SELECT of the entries of approved refunds `f` of orders `o`."""
    return _select(
        LedgerSource.ORDERS, "COALESCE(o.parent_id, o.id)", "f.updated_at", shop="COALESCE(f.shop_id, 0)",
        currency="o.currency", sign=sign, measures={"refunds": "f.amount"},
        tables=f"{orders} o JOIN {rows} f ON f.order_id = o.id", 
        where=f"{IS_APPROVED} AND {where}",
    )  # fmt: skip


def select_customers(where: str, *, rows: str = USERS, sign: str = "") -> str:
    """Return the SELECT of the entries of users `u` who are customers."""
    return _select(
        LedgerSource.USERS, "u.id", "u.created_at", sign=sign, measures={"customers": "1"},
        tables=f"{rows} u", where=f"u.role = 'CUSTOMER' AND {where}",
    )  # fmt: skip


def select_reviews(where: str, *, rows: str = REVIEWS, sign: str = "") -> str:
    """Return the SELECT of the entries of visible reviews `v`."""
    return _select(
        LedgerSource.REVIEWS, "v.id", "v.created_at", product="v.product_id", sign=sign,
        measures={"stars": "v.rating", "reviews": "1"}, tables=f"{rows} v",
        where=f"v.deleted_at IS NULL AND v.hidden_at IS NULL AND {where}",
    )  # fmt: skip


class PlainTable(NamedTuple):
    """A table whose rows have entries of their own alone; `letter` is what its SELECT calls it."""

    name: str
    columns: Sequence[str]
    letter: str
    select: Callable[..., str]


PLAIN_TABLES = {
    "line": PlainTable(LINES, LINE_COLUMNS, "l", select_order_lines),
    "refund": PlainTable(REFUNDS, REFUND_COLUMNS, "f", select_refunds),
    "user": PlainTable(USERS, USER_COLUMNS, "u", select_customers),
    "review": PlainTable(REVIEWS, REVIEW_COLUMNS, "v", select_reviews),
}


def sum_selects(selects: list[str]) -> str:
    """Return the SELECT of the sums of several SELECTs, without the rows that cancel out."""
    sums = ", ".join(f"SUM({measure}) AS {measure}" for measure in MEASURES)
    changed = " OR ".join(f"SUM({measure}) <> 0" for measure in MEASURES)
    keys = ", ".join(KEYS)
    union = " UNION ALL ".join(selects)
    return f"SELECT {keys}, {sums} FROM ({union}) AS every GROUP BY {keys} HAVING {changed}"  # noqa: S608  # nosec B608


def insert_into_ledger(select: str) -> str:
    """Return the INSERT of the rows of a SELECT into the ledger."""
    return f"INSERT INTO {LEDGER} ({', '.join(COLUMNS)}) {select}"  # nosec B608


def _select(
    source: LedgerSource,
    source_id: str,
    happened_at: str,
    *,
    tables: str,
    where: str,
    measures: dict[str, str],
    sign: str,
    shop: str = "0",
    currency: str = "''",
    status: str = "''",
    customer: str = "0",
    product: str = "0",
) -> str:
    keys = (str(int(source)), source_id, happened_at, shop, currency, status, customer, product)
    columns = [f"{value} AS {name}" for name, value in zip(KEYS, keys, strict=True)]
    columns += [f"{sign}({measures.get(name, '0')}) AS {name}" for name in MEASURES]
    return f"SELECT {', '.join(columns)} FROM {tables} WHERE {where}"  # noqa: S608  # nosec B608
