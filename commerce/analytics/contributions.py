"""What each row of the shop counts for, as SQL that both databases understand.

Each function answers a SELECT of the ledger's columns (`COLUMNS`) from tables that it is given by name, so that the
triggers can name what was before a write and what is after it, and a rebuild can name everything. This is the one place
where it is written down; `reconcile` says the same a second time, in other words, to compare.

* An order is a tree; its day is its parent's. A part whose parent is not there (constraints are deferred, so it may be
  missing for a while) counts for nothing.
* Revenue is what parts are paid where the part and its parent are complete; fee and tax of a complete parent.
* A refund counts once it is approved, on the day of its decision, in the currency of its order.
"""

from commerce.analytics.models import Entry, Source
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Review
from shared.accounts.models import User

ENTRIES = Entry._meta.db_table
ORDERS, LINES, REFUNDS = (model._meta.db_table for model in (Order, OrderLine, Refund))
REVIEWS, USERS = Review._meta.db_table, User._meta.db_table

KEYS = ("source", "source_id", "happened_at", "shop_id", "currency", "status", "customer_id", "product_id")
MEASURES = ("orders", "revenue", "refunds", "customers", "units", "stars", "reviews")
COLUMNS = (*KEYS, *MEASURES)

# What an order's row counts for depends on these columns alone.
ORDER_COLUMNS = (
    "id", "parent_id", "shop_id", "customer_id", "order_status", "currency", "total", "sales_tax", "delivery_fee",
    "created_at",
)  # fmt: skip
LINE_COLUMNS = ("id", "order_id", "product_id", "quantity")
REFUND_COLUMNS = ("id", "order_id", "shop_id", "amount", "status", "updated_at")
USER_COLUMNS = ("id", "role", "created_at")
REVIEW_COLUMNS = ("id", "product_id", "rating", "deleted_at", "hidden_at", "created_at")


def _met(condition: str) -> str:
    """The condition in a form for which no planner looks for an index, as there are better ones by id, or guesses that
    hardly any row meets it."""
    return f"CASE WHEN {condition} THEN TRUE ELSE FALSE END"


SOLD = _met("c.order_status = 'complete' AND r.order_status = 'complete'")
IS_PARENT = _met("r.parent_id IS NULL")
IS_APPROVED = _met("f.status = 'approved'")


def of_parents(where: str, *, orders: str = ORDERS, sign: str = "") -> str:
    """Of the orders `r`, the parents' own."""
    fees = "CASE WHEN r.order_status = 'complete' THEN r.sales_tax + r.delivery_fee ELSE 0 END"
    return _select(
        Source.ORDERS, "r.id", "r.created_at", currency="r.currency", status="r.order_status", sign=sign,
        measures={"orders": "1", "revenue": fees}, tables=f"{orders} r", where=f"{IS_PARENT} AND {where}",
    )  # fmt: skip


def of_parts(where: str, *, parts: str = ORDERS, parents: str = ORDERS, sign: str = "") -> str:
    """Of the parts `c` below their parents `r`."""
    revenue = f"CASE WHEN {SOLD} THEN c.total ELSE 0 END"
    return _select(
        Source.ORDERS, "r.id", "r.created_at", shop="c.shop_id", currency="c.currency", status="c.order_status",
        customer="c.customer_id", sign=sign, measures={"orders": "1", "revenue": revenue},
        tables=f"{parts} c JOIN {parents} r ON r.id = c.parent_id", where=f"{IS_PARENT} AND {where}",
    )  # fmt: skip


def of_lines(where: str, *, lines: str = LINES, parts: str = ORDERS, parents: str = ORDERS, sign: str = "") -> str:
    """Of the lines `l` in sold parts `c` below their parents `r`."""
    return _select(
        Source.ORDERS, "r.id", "r.created_at", shop="c.shop_id", currency="c.currency", product="l.product_id",
        sign=sign, measures={"units": "l.quantity"},
        tables=f"{parts} c JOIN {parents} r ON r.id = c.parent_id JOIN {lines} l ON l.order_id = c.id",
        where=f"{IS_PARENT} AND {SOLD} AND {where}",
    )  # fmt: skip


def of_refunds(where: str, *, refunds: str = REFUNDS, orders: str = ORDERS, sign: str = "") -> str:
    """Of the refunds `f` of orders `o`, the approved ones."""
    return _select(
        Source.ORDERS, "COALESCE(o.parent_id, o.id)", "f.updated_at", shop="COALESCE(f.shop_id, 0)",
        currency="o.currency", sign=sign, measures={"refunds": "f.amount"},
        tables=f"{orders} o JOIN {refunds} f ON f.order_id = o.id", 
        where=f"{IS_APPROVED} AND {where}",
    )  # fmt: skip


def of_users(where: str, *, users: str = USERS, sign: str = "") -> str:
    """Of the users `u`, the customers."""
    return _select(
        Source.USERS, "u.id", "u.created_at", sign=sign, measures={"customers": "1"},
        tables=f"{users} u", where=f"u.role = 'CUSTOMER' AND {where}",
    )  # fmt: skip


def of_reviews(where: str, *, reviews: str = REVIEWS, sign: str = "") -> str:
    """Of the reviews `v`, those that anybody may read."""
    return _select(
        Source.REVIEWS, "v.id", "v.created_at", product="v.product_id", sign=sign,
        measures={"stars": "v.rating", "reviews": "1"}, tables=f"{reviews} v",
        where=f"v.deleted_at IS NULL AND v.hidden_at IS NULL AND {where}",
    )  # fmt: skip


def added_up(selects: list[str]) -> str:
    """The differences of all of them together; what cancels is left out."""
    sums = ", ".join(f"SUM({measure}) AS {measure}" for measure in MEASURES)
    changed = " OR ".join(f"SUM({measure}) <> 0" for measure in MEASURES)
    keys = ", ".join(KEYS)
    together = " UNION ALL ".join(selects)
    return f"SELECT {keys}, {sums} FROM ({together}) AS every GROUP BY {keys} HAVING {changed}"  # noqa: S608  # nosec B608


def into_ledger(select: str) -> str:
    return f"INSERT INTO {ENTRIES} ({', '.join(COLUMNS)}) {select}"  # nosec B608


def _select(
    source: Source,
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
