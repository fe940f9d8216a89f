"""The ledger's triggers in PostgreSQL, once for each statement: what all the changed rows counted for before it,
against what they count for after it. So a million rows cost one INSERT, and what cancels is never written.

What a row counts for depends on rows of other tables too. Those are locked against change before they are read, or
two transactions that change one each would both count with the other's old state. Whoever locks a whole tree
of orders first, as the services do, has these locks already. A transaction that goes on seeing an earlier moment would
count with old states all the same: it is refused.
"""

from collections.abc import Iterator, Sequence

from commerce.analytics import contributions as of
from commerce.analytics.models import Books

PREFIX = "analytics_"
OPERATIONS = ("insert", "update", "delete")
# A session plans a function's statement once, when the tables may have been empty: few rows are always looked up by
# their ids. For many it is planned each time, with hash joins. Rows that are written together lie together: they are
# fetched by their ids for less than the planner thinks, who would read all orders for each thousand of new ones.
CAREFUL = "SET random_page_cost = 0.5 " + " ".join(
    f"SET {name} = off"
    for name in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit")
)
MANY = 200


def triggers() -> dict[str, tuple[str, str, str]]:
    """By name: the table, the event, and the body of the function of the same name, which begins with all that is not
    in it: whoever compares bodies compares everything."""
    made = dict(_all())
    for what, table in _TABLES.items():
        stale = f"BEGIN UPDATE {Books._meta.db_table} SET is_stale = TRUE; RETURN NULL; END"  # noqa: S608  # nosec B608
        made[f"{PREFIX}{what}_truncate"] = (table, "BEFORE TRUNCATE", stale)
    return {name: (table, event, f"/* {event} {CAREFUL} */ {body}") for name, (table, event, body) in made.items()}


_TABLES = {"order": of.ORDERS, "line": of.LINES, "refund": of.REFUNDS, "user": of.USERS, "review": of.REVIEWS}


def _all() -> Iterator[tuple[str, tuple[str, str, str]]]:
    for operation in OPERATIONS:
        orders = _of_new_orders() if operation == "insert" else _of_orders(operation)
        yield _trigger("order", operation, of.ORDER_COLUMNS, _lock_parents(operation), orders)
        lines = [of.of_lines("TRUE", lines=rows, sign=sign) for rows, sign in _changed(operation)]
        yield _trigger("line", operation, of.LINE_COLUMNS, _lock_orders(operation), _together(lines))
        refunds = [of.of_refunds("TRUE", refunds=rows, sign=sign) for rows, sign in _changed(operation)]
        yield _trigger("refund", operation, of.REFUND_COLUMNS, _lock_orders(operation), _together(refunds))
        users = [of.of_users("TRUE", users=rows, sign=sign) for rows, sign in _changed(operation)]
        yield _trigger("user", operation, of.USER_COLUMNS, "", _together(users))
        reviews = [of.of_reviews("TRUE", reviews=rows, sign=sign) for rows, sign in _changed(operation)]
        yield _trigger("review", operation, of.REVIEW_COLUMNS, "", _together(reviews))


def _together(selects: list[str]) -> str:
    """Of one kind of rows nothing cancels, and adding up would take longer than the rows."""
    return selects[0] if len(selects) == 1 else of.added_up(selects)


def _changed(operation: str) -> list[tuple[str, str]]:
    """The rows as they were, to be taken back, and as they are."""
    return [pair for pair in (("old_rows", "-"), ("new_rows", "")) if _has(operation, pair[0])]


def _has(operation: str, rows: str) -> bool:
    return operation != ("insert" if rows == "old_rows" else "delete")


def _of_new_orders() -> str:
    """Of the new ones, whether their parents were there or came with them; and of parts that were there before their
    parents."""
    earlier = "NOT EXISTS (SELECT 1 FROM new_rows WHERE new_rows.id = c.id)"
    return " UNION ALL ".join([
        of.of_parents("TRUE", orders="new_rows"),
        of.of_refunds("TRUE", orders="new_rows"),
        of.of_parts("TRUE", parts="new_rows"),
        of.of_lines("TRUE", parts="new_rows"),
        of.of_parts(earlier, parents="new_rows"),
        of.of_lines(earlier, parents="new_rows"),
    ])  # fmt: skip


def _of_orders(operation: str) -> str:
    """`before` and `after` are the changed rows with their parents and parts, which this statement neither changed nor
    made: an INSERT with ON CONFLICT DO UPDATE does both, and counts what it made as new. A row that it made is of its
    command, and its transaction alone may have locked it since. Of one that was changed and rolled back, cmin says
    something else; where its transaction has locked it again after that, it could be taken for new, and the night
    would find it."""
    columns = ", ".join(of.ORDER_COLUMNS)
    changed = [rows for rows, _ in _changed(operation)]
    ids = " UNION ".join(f"SELECT id, parent_id FROM {rows}" for rows in changed)  # noqa: S608  # nosec B608
    beside = f"""
        SELECT {", ".join(f"o.{column}" for column in of.ORDER_COLUMNS)} FROM (
            SELECT o.id FROM ids JOIN {of.ORDERS} o ON o.id = ids.parent_id
            UNION SELECT o.id FROM ids JOIN {of.ORDERS} o ON o.parent_id = ids.id
            EXCEPT SELECT ids.id FROM ids
        ) AS near JOIN {of.ORDERS} o ON o.id = near.id
        WHERE o.xmax <> ALL (ARRAY['0'::xid, o.xmin]) OR CONCAT(o.xmin, ' ', o.cmin) NOT IN (
            SELECT CONCAT(o.xmin, ' ', o.cmin) FROM ids JOIN {of.ORDERS} o ON o.id = ids.id LIMIT 1
        )"""  # noqa: S608  # nosec B608
    names = {"old_rows": "before", "new_rows": "after"}
    whole = {
        name: "SELECT * FROM beside" + (f" UNION ALL SELECT {columns} FROM {rows}" if rows in changed else "")  # noqa: S608  # nosec B608
        for rows, name in names.items()
    }
    selects = []
    for rows, sign in (("old_rows", "-"), ("new_rows", "")):
        name = names[rows]
        if rows in changed:
            selects += [of.of_parents("TRUE", orders=rows, sign=sign), of.of_refunds("TRUE", orders=rows, sign=sign)]
        selects += [
            of.of_parts("TRUE", parts=name, parents=name, sign=sign),
            of.of_lines("TRUE", parts=name, parents=name, sign=sign),
        ]
    return (
        f"WITH ids AS ({ids}), beside AS ({beside}), before AS ({whole['before']}), after AS ({whole['after']}) "
        + of.added_up(selects)
    )


def _lock_parents(operation: str) -> str:
    ids = " UNION ".join(f"SELECT parent_id FROM {rows}" for rows, _ in _changed(operation))  # noqa: S608  # nosec B608
    return _lock(ids)


def _lock_orders(operation: str) -> str:
    """The orders of these lines or refunds, and their parents."""
    ids = " UNION ".join(f"SELECT order_id FROM {rows}" for rows, _ in _changed(operation))  # noqa: S608  # nosec B608
    parents = f"SELECT parent_id FROM {of.ORDERS} WHERE id IN ({ids})"  # noqa: S608  # nosec B608
    return _lock(f"{ids} UNION {parents}")


def _lock(ids: str) -> str:
    """But for what this transaction has written itself: nobody else can change that until it ends."""
    not_ours = "xmin <> pg_current_xact_id()::xid"
    return f"PERFORM 1 FROM {of.ORDERS} WHERE id IN ({ids}) AND {not_ours} ORDER BY id FOR SHARE;"  # nosec B608


_REFUSE_OLD_MOMENTS = """
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'orders, their lines and refunds are written at READ COMMITTED alone'
        USING HINT = 'Begin the transaction without another isolation level.', ERRCODE = 'feature_not_supported';
    END IF;"""


def _trigger(
    what: str, operation: str, columns: Sequence[str], lock: str, select: str
) -> tuple[str, tuple[str, str, str]]:
    transition = " ".join(f"{rows.split('_')[0].upper()} TABLE AS {rows}" for rows, _ in _changed(operation))
    event = f"AFTER {operation.upper()} ON {_TABLES[what]} REFERENCING {transition}"
    skip = _unless_changed(columns) if operation == "update" else ""
    entries = of.into_ledger(select)
    refuse = _REFUSE_OLD_MOMENTS if lock else ""
    few = f"{lock} {entries};"
    many = f"{_planned_now(lock.replace('PERFORM', 'SELECT', 1))} {_planned_now(entries)}"
    rows = " UNION ALL ".join(f"SELECT 1 FROM {rows}" for rows, _ in _changed(operation))  # noqa: S608  # nosec B608
    count = f"(SELECT COUNT(*) FROM (SELECT 1 FROM ({rows}) AS changed LIMIT {MANY}) AS counted)"  # noqa: S608  # nosec B608
    free = "".join(f"PERFORM set_config('{name}', 'on', TRUE);" for name in ("enable_hashjoin", "enable_seqscan"))
    body = f"BEGIN {skip} {refuse} IF {count} < {MANY} THEN {few} ELSE {free} {many} END IF; RETURN NULL; END"
    return f"{PREFIX}{what}_{operation}", (_TABLES[what], event, body)


def _planned_now(statement: str) -> str:
    return f"EXECUTE $many${statement.rstrip(';')}$many$;" if statement else ""


def _unless_changed(columns: Sequence[str]) -> str:
    before, after = (", ".join(f"{rows}.{column}" for column in columns) for rows in ("old_rows", "new_rows"))
    return (
        "IF NOT EXISTS (SELECT 1 FROM old_rows FULL JOIN new_rows ON old_rows.id = new_rows.id "  # noqa: S608  # nosec B608
        f"WHERE ({before}) IS DISTINCT FROM ({after})) THEN RETURN NULL; END IF;"
    )
