"""Ledger triggers for SQLite, which has row triggers only.

Before a row changes, its former entries are written with a minus; after the change, its new entries are written.
SQLite has one writer at a time and the neighbouring rows are up to date, so each row's difference is exact, in whatever
order a statement changes many rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from commerce.analytics.ledger.entries import (
    ORDER_COLUMNS,
    ORDERS,
    PLAIN_TABLES,
    PlainTable,
    insert_into_ledger,
    select_order_lines,
    select_parent_orders,
    select_refunds,
    select_shop_orders,
)

PREFIX = "analytics_"

# Returns the SELECTs of the entries of the row with an id (an SQL expression), with a sign.
RowSelects = Callable[[str, str], list[str]]


def trigger_statements() -> dict[str, str]:
    """Return the CREATE TRIGGER statement of each trigger, by name."""
    statements = dict(_table_triggers("order", ORDERS, _whole_order, {
        "own": (ORDER_COLUMNS, _own_order),
        "lines": (("id", "parent_id", "shop_id", "currency", "order_status"), _own_lines),
        "parts": (("id", "parent_id", "order_status", "created_at"), _children),
        "refunds": (("id", "parent_id", "currency"), _own_refunds),
    }))  # fmt: skip
    for label, table in PLAIN_TABLES.items():

        def selects(row: str, sign: str, table: PlainTable = table) -> list[str]:
            return [table.select(f"{table.letter}.id = {row}", sign=sign)]

        statements |= _table_triggers(label, table.name, selects, {"all": (table.columns, selects)})
    return statements


def _own_order(row: str, sign: str) -> list[str]:
    return [select_parent_orders(f"r.id = {row}", sign=sign), select_shop_orders(f"c.id = {row}", sign=sign)]


def _own_lines(row: str, sign: str) -> list[str]:
    return [select_order_lines(f"c.id = {row}", sign=sign)]


def _own_refunds(row: str, sign: str) -> list[str]:
    return [select_refunds(f"o.id = {row}", sign=sign)]


def _children(row: str, sign: str) -> list[str]:
    return [
        select_shop_orders(f"c.parent_id = {row}", sign=sign),
        select_order_lines(f"c.parent_id = {row}", sign=sign),
    ]


def _whole_order(row: str, sign: str) -> list[str]:
    parts = (_own_order, _own_lines, _own_refunds, _children)
    return [select for part in parts for select in part(row, sign)]


def _table_triggers(
    label: str, table: str, selects: RowSelects, updates: Mapping[str, tuple[Sequence[str], RowSelects]]
) -> Iterator[tuple[str, str]]:
    """Yield the name and statement of each trigger of a table.

    `updates` has by label the columns of an update, and the SELECTs that depend on them.
    """
    yield _trigger(label, "insert", f"AFTER INSERT ON {table}", selects("NEW.id", ""))
    yield _trigger(label, "delete", f"BEFORE DELETE ON {table}", selects("OLD.id", "-"))
    for part, (watched, part_selects) in updates.items():
        changed = " OR ".join(f"OLD.{column} IS NOT NEW.{column}" for column in watched)
        event = f"UPDATE OF {', '.join(watched)} ON {table} WHEN {changed}"
        yield _trigger(label, f"{part}_before", f"BEFORE {event}", part_selects("OLD.id", "-"))
        yield _trigger(label, f"{part}_after", f"AFTER {event}", part_selects("NEW.id", ""))


def _trigger(label: str, suffix: str, event: str, selects: list[str]) -> tuple[str, str]:
    name = f"{PREFIX}{label}_{suffix}"
    insert = insert_into_ledger(" UNION ALL ".join(selects))
    return name, f"CREATE TRIGGER {name} {event} BEGIN {insert}; END"
