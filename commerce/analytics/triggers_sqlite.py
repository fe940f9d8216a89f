"""The ledger's triggers in SQLite, which has them for each row: before a row changes, what it counted for is taken
back; after it has changed, what it counts for now is entered.

Here nobody writes at the same time, and the rows beside the one that changes are as they are: so each row's change is
exact by itself, in whatever order one statement changes many.
"""

from collections.abc import Callable, Iterator, Sequence

from commerce.analytics import contributions as of

PREFIX = "analytics_"

# Answers the SELECTs of what the row with this id counts for, with a sign.
Counted = Callable[[str, str], list[str]]


def triggers() -> dict[str, str]:
    """Each trigger's name, and the statement that makes it."""
    return dict([
        *_table("order", of.ORDERS, of.ORDER_COLUMNS, _whole_order, updates=[
            ("own", of.ORDER_COLUMNS, _own_order),
            ("lines", ("id", "parent_id", "shop_id", "currency", "order_status"), _own_lines),
            ("parts", ("id", "parent_id", "order_status", "created_at"), _parts_below),
            ("refunds", ("id", "parent_id", "currency"), _own_refunds),
        ]),
        *_table("line", of.LINES, of.LINE_COLUMNS, lambda row, sign: [of.of_lines(f"l.id = {row}", sign=sign)]),
        *_table("refund", of.REFUNDS, of.REFUND_COLUMNS,
                lambda row, sign: [of.of_refunds(f"f.id = {row}", sign=sign)]),
        *_table("user", of.USERS, of.USER_COLUMNS, lambda row, sign: [of.of_users(f"u.id = {row}", sign=sign)]),
        *_table("review", of.REVIEWS, of.REVIEW_COLUMNS,
                lambda row, sign: [of.of_reviews(f"v.id = {row}", sign=sign)]),
    ])  # fmt: skip


def _own_order(row: str, sign: str) -> list[str]:
    return [of.of_parents(f"r.id = {row}", sign=sign), of.of_parts(f"c.id = {row}", sign=sign)]


def _own_lines(row: str, sign: str) -> list[str]:
    return [of.of_lines(f"c.id = {row}", sign=sign)]


def _own_refunds(row: str, sign: str) -> list[str]:
    return [of.of_refunds(f"o.id = {row}", sign=sign)]


def _parts_below(row: str, sign: str) -> list[str]:
    return [of.of_parts(f"c.parent_id = {row}", sign=sign), of.of_lines(f"c.parent_id = {row}", sign=sign)]


def _whole_order(row: str, sign: str) -> list[str]:
    parts = (_own_order, _own_lines, _own_refunds, _parts_below)
    return [select for part in parts for select in part(row, sign)]


def _table(
    what: str,
    table: str,
    columns: Sequence[str],
    counted: Counted,
    updates: Sequence[tuple[str, Sequence[str], Counted]] = (),
) -> Iterator[tuple[str, str]]:
    """`updates`: what depends on which columns, where it is not all on all."""
    yield _trigger(what, "insert", f"AFTER INSERT ON {table}", counted("NEW.id", ""))
    yield _trigger(what, "delete", f"BEFORE DELETE ON {table}", counted("OLD.id", "-"))
    for part, watched, part_counted in updates or [("all", columns, counted)]:
        changed = " OR ".join(f"OLD.{column} IS NOT NEW.{column}" for column in watched)
        event = f"UPDATE OF {', '.join(watched)} ON {table} WHEN {changed}"
        yield _trigger(what, f"{part}_before", f"BEFORE {event}", part_counted("OLD.id", "-"))
        yield _trigger(what, f"{part}_after", f"AFTER {event}", part_counted("NEW.id", ""))


def _trigger(what: str, when: str, event: str, selects: list[str]) -> tuple[str, str]:
    name = f"{PREFIX}{what}_{when}"
    entries = of.into_ledger(" UNION ALL ".join(selects))
    return name, f"CREATE TRIGGER {name} {event} BEGIN {entries}; END"
