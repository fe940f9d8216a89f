"""Ledger triggers for PostgreSQL, one per table and operation, fired once per statement.

Each compares the entries of all changed rows before the statement with their entries after it. A million rows thus cost
one INSERT, and differences that cancel out are never written.

Entries also depend on rows of other tables. A trigger locks those rows against change before it reads them: otherwise
two transactions that each change one of them would both count with the other's old state. A service that has locked the
whole order tree first holds these locks already. REPEATABLE READ and SERIALIZABLE transactions keep reading an older
snapshot and would miscount all the same, so they are refused.
"""

from collections.abc import Iterator, Sequence

from commerce.analytics.ledger.entries import (
    ORDER_COLUMNS,
    ORDERS,
    PLAIN_TABLES,
    insert_into_ledger,
    select_order_lines,
    select_parent_orders,
    select_refunds,
    select_shop_orders,
    sum_selects,
)
from commerce.analytics.models import RollupState

PREFIX = "analytics_"
OPERATIONS = ("insert", "update", "delete")
# A session plans a function's statement once, perhaps while the tables were empty: up to BULK_ROWS rows are always
# looked up by id. More rows are planned each time, with hash joins. Rows written together are stored together, so that
# fetching them by id costs less than the planner assumes; it would read all orders for each thousand of new ones.
PLANNER_SETTINGS = "SET random_page_cost = 0.5 " + " ".join(
    f"SET {name} = off"
    for name in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit")
)
BULK_ROWS = 200
TABLES = {"order": ORDERS} | {label: table.name for label, table in PLAIN_TABLES.items()}

_REFUSE_OLD_SNAPSHOTS = """
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'orders, their lines and refunds are written at READ COMMITTED alone'
        USING HINT = 'Begin the transaction without another isolation level.', ERRCODE = 'feature_not_supported';
    END IF;"""


def trigger_definitions() -> dict[str, tuple[str, str, str]]:
    """Return the table, event and function body of each trigger, by name.

    A body begins with a comment of everything outside it, so that comparing bodies compares whole definitions.
    """
    definitions = dict(_change_triggers())
    for label, table in TABLES.items():
        mark_stale = f"BEGIN UPDATE {RollupState._meta.db_table} SET is_stale = TRUE; RETURN NULL; END"  # noqa: S608  # nosec B608
        definitions[f"{PREFIX}{label}_truncate"] = (table, "BEFORE TRUNCATE", mark_stale)
    return {
        name: (table, event, f"/* {event} {PLANNER_SETTINGS} */ {body}")
        for name, (table, event, body) in definitions.items()
    }


def _change_triggers() -> Iterator[tuple[str, tuple[str, str, str]]]:
    for operation in OPERATIONS:
        orders = _new_order_entries() if operation == "insert" else _changed_order_entries(operation)
        yield _trigger("order", operation, ORDER_COLUMNS, _lock_parents(operation), orders)
        for label, table in PLAIN_TABLES.items():
            selects = [table.select("TRUE", rows=rows, sign=sign) for rows, sign in _transition_tables(operation)]
            # A single SELECT has nothing that cancels out, and summing it would cost time.
            select = selects[0] if len(selects) == 1 else sum_selects(selects)
            lock = _lock_orders(operation) if "order_id" in table.columns else ""
            yield _trigger(label, operation, table.columns, lock, select)


def _transition_tables(operation: str) -> list[tuple[str, str]]:
    """Return the transition tables of an operation, and the sign with which their rows count."""
    missing = {"insert": "old_rows", "delete": "new_rows"}.get(operation)
    return [pair for pair in (("old_rows", "-"), ("new_rows", "")) if pair[0] != missing]


def _new_order_entries() -> str:
    """Return the SELECT of the entries of inserted orders.

    Parents may exist already or come with their children; children may exist before their parents.
    """
    earlier = "NOT EXISTS (SELECT 1 FROM new_rows WHERE new_rows.id = c.id)"
    return " UNION ALL ".join([
        select_parent_orders("TRUE", orders="new_rows"),
        select_refunds("TRUE", orders="new_rows"),
        select_shop_orders("TRUE", children="new_rows"),
        select_order_lines("TRUE", children="new_rows"),
        select_shop_orders(earlier, parents="new_rows"),
        select_order_lines(earlier, parents="new_rows"),
    ])  # fmt: skip


def _changed_order_entries(operation: str) -> str:
    """Return the SELECT of the differences of updated or deleted orders.

    `before` and `after` are the changed rows with their parents and children, except those that this statement changed
    or inserted itself. INSERT ... ON CONFLICT DO UPDATE does both, and the insert trigger counts what it inserted.
    A row that the statement inserted has the statement's cmin, and only its own transaction can have locked it since.
    A row that was changed and rolled back has another cmin. If its transaction locked it again after that, it may be
    mistaken for a new row; the nightly reconciliation finds this.
    """
    columns = ", ".join(ORDER_COLUMNS)
    changed = [rows for rows, _ in _transition_tables(operation)]
    ids = " UNION ".join(f"SELECT id, parent_id FROM {rows}" for rows in changed)  # noqa: S608  # nosec B608
    names = {"old_rows": "before", "new_rows": "after"}
    with_relatives = {
        name: "SELECT * FROM beside" + (f" UNION ALL SELECT {columns} FROM {rows}" if rows in changed else "")  # noqa: S608  # nosec B608
        for rows, name in names.items()
    }
    selects = []
    for rows, sign in (("old_rows", "-"), ("new_rows", "")):
        name = names[rows]
        if rows in changed:
            selects += [
                select_parent_orders("TRUE", orders=rows, sign=sign),
                select_refunds("TRUE", orders=rows, sign=sign),
            ]
        selects += [
            select_shop_orders("TRUE", children=name, parents=name, sign=sign),
            select_order_lines("TRUE", children=name, parents=name, sign=sign),
        ]
    return (
        f"WITH ids AS ({ids}), beside AS ({_unchanged_relatives()}), "
        f"before AS ({with_relatives['before']}), after AS ({with_relatives['after']}) " + sum_selects(selects)
    )


def _unchanged_relatives() -> str:
    """Return the SELECT of the parents and children that the statement neither changed nor inserted."""
    return f"""
        SELECT {", ".join(f"o.{column}" for column in ORDER_COLUMNS)} FROM (
            SELECT o.id FROM ids JOIN {ORDERS} o ON o.id = ids.parent_id
            UNION SELECT o.id FROM ids JOIN {ORDERS} o ON o.parent_id = ids.id
            EXCEPT SELECT ids.id FROM ids
        ) AS near JOIN {ORDERS} o ON o.id = near.id
        WHERE o.xmax <> ALL (ARRAY['0'::xid, o.xmin]) OR CONCAT(o.xmin, ' ', o.cmin) NOT IN (
            SELECT CONCAT(o.xmin, ' ', o.cmin) FROM ids JOIN {ORDERS} o ON o.id = ids.id LIMIT 1
        )"""  # noqa: S608  # nosec B608


def _lock_parents(operation: str) -> str:
    tables = _transition_tables(operation)
    ids = " UNION ".join(f"SELECT parent_id FROM {rows}" for rows, _ in tables)  # noqa: S608  # nosec B608
    return _lock(ids)


def _lock_orders(operation: str) -> str:
    """Return the statement that locks the orders of changed lines or refunds, and their parents."""
    tables = _transition_tables(operation)
    ids = " UNION ".join(f"SELECT order_id FROM {rows}" for rows, _ in tables)  # noqa: S608  # nosec B608
    parents = f"SELECT parent_id FROM {ORDERS} WHERE id IN ({ids})"  # noqa: S608  # nosec B608
    return _lock(f"{ids} UNION {parents}")


def _lock(ids: str) -> str:
    """Return the lock statement; it skips rows that this transaction wrote, which no other can change until it ends."""
    not_ours = "xmin <> pg_current_xact_id()::xid"
    return f"PERFORM 1 FROM {ORDERS} WHERE id IN ({ids}) AND {not_ours} ORDER BY id FOR SHARE;"  # nosec B608


def _trigger(
    label: str, operation: str, columns: Sequence[str], lock: str, select: str
) -> tuple[str, tuple[str, str, str]]:
    tables = _transition_tables(operation)
    transition = " ".join(f"{rows.split('_')[0].upper()} TABLE AS {rows}" for rows, _ in tables)
    event = f"AFTER {operation.upper()} ON {TABLES[label]} REFERENCING {transition}"
    skip = _return_if_unchanged(columns) if operation == "update" else ""
    insert = insert_into_ledger(select)
    refuse = _REFUSE_OLD_SNAPSHOTS if lock else ""
    few = f"{lock} {insert};"
    many = f"{_execute(lock.replace('PERFORM', 'SELECT', 1))} {_execute(insert)}"
    rows = " UNION ALL ".join(f"SELECT 1 FROM {rows}" for rows, _ in tables)  # noqa: S608  # nosec B608
    count = f"(SELECT COUNT(*) FROM (SELECT 1 FROM ({rows}) AS changed LIMIT {BULK_ROWS}) AS counted)"  # noqa: S608  # nosec B608
    allow = "".join(f"PERFORM set_config('{name}', 'on', TRUE);" for name in ("enable_hashjoin", "enable_seqscan"))
    body = f"BEGIN {skip} {refuse} IF {count} < {BULK_ROWS} THEN {few} ELSE {allow} {many} END IF; RETURN NULL; END"
    return f"{PREFIX}{label}_{operation}", (TABLES[label], event, body)


def _execute(statement: str) -> str:
    """Return the EXECUTE of a statement, which plans it anew each time."""
    return f"EXECUTE $many${statement.rstrip(';')}$many$;" if statement else ""


def _return_if_unchanged(columns: Sequence[str]) -> str:
    before, after = (", ".join(f"{rows}.{column}" for column in columns) for rows in ("old_rows", "new_rows"))
    return (
        "IF NOT EXISTS (SELECT 1 FROM old_rows FULL JOIN new_rows ON old_rows.id = new_rows.id "  # noqa: S608  # nosec B608
        f"WHERE ({before}) IS DISTINCT FROM ({after})) THEN RETURN NULL; END IF;"
    )
