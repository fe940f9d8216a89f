"""Partition the table by month in PostgreSQL. No row is copied: the former table becomes the first partition."""

from typing import Any

from django.db import migrations
from django.utils import timezone

from shared.audit.partitions import FIRST, create_default, create_partitions, month_of, next_month
from shared.audit.triggers import TABLE, TRIGGER_NAMES, TRUNCATE_TRIGGER_NAME, create_triggers


def partition(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor != "postgresql":
        return
    model = apps.get_model("audit", "AuditEntry")
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {TABLE}")
        next_id = _next_id(cursor)
        for trigger in (*TRIGGER_NAMES.values(), TRUNCATE_TRIGGER_NAME):
            cursor.execute(f"DROP TRIGGER IF EXISTS {trigger} ON {TABLE}")
        _set_aside(cursor, FIRST)
        _create_table(schema_editor, cursor, model, next_id, partitioned=True)
        _copy_grants(cursor, FIRST)
        cursor.execute(f"SELECT max(at) FROM {FIRST}")  # noqa: S608  # nosec B608
        newest = cursor.fetchone()[0] or timezone.now()  # later than now if a clock was ahead
        upper = next_month(month_of(max(newest, timezone.now())))
        cursor.execute(
            f"ALTER TABLE {TABLE} ATTACH PARTITION {FIRST} FOR VALUES FROM (MINVALUE) TO (%s)", [upper.isoformat()]
        )
        create_default(cursor)
    create_partitions(schema_editor.connection, now=timezone.now())
    create_triggers(using=schema_editor.connection.alias)


def merge(apps: Any, schema_editor: Any) -> None:
    """Write all entries into one table again."""
    if schema_editor.connection.vendor != "postgresql":
        return
    partitioned = f"{TABLE}_partitioned"
    model = apps.get_model("audit", "AuditEntry")
    columns = ", ".join(field.column for field in model._meta.concrete_fields)
    with schema_editor.connection.cursor() as cursor:
        next_id = _next_id(cursor)
        _set_aside(cursor, partitioned)
        _create_table(schema_editor, cursor, model, next_id, partitioned=False)
        _copy_grants(cursor, partitioned)
        cursor.execute(f"INSERT INTO {TABLE} ({columns}) SELECT {columns} FROM {partitioned}")  # noqa: S608  # nosec B608
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"DROP TABLE {partitioned}")
    create_triggers(using=schema_editor.connection.alias)


def _next_id(cursor: Any) -> int:
    cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [TABLE])
    return int(cursor.fetchone()[0])


def _set_aside(cursor: Any, name: str) -> None:
    """Rename the table and its indexes, whose names the next one takes, and free its sequence."""
    cursor.execute(f"ALTER TABLE {TABLE} RENAME TO {name}")
    cursor.execute(f"ALTER TABLE {name} ALTER COLUMN id DROP IDENTITY")
    cursor.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass", [name])
    for number, (index,) in enumerate(sorted(cursor.fetchall())):
        cursor.execute(f"ALTER INDEX {index} RENAME TO {name}_{number}")


def _create_table(schema_editor: Any, cursor: Any, model: Any, next_id: int, *, partitioned: bool) -> None:
    """Create the table as Django does. A partitioned one has no primary key: each partition has that of `id`."""
    statement, parameters = schema_editor.table_sql(model)
    if partitioned:
        statement = statement.replace(" PRIMARY KEY", "", 1) + " PARTITION BY RANGE (at)"
    cursor.execute(statement, parameters or None)
    cursor.execute(f"ALTER TABLE {TABLE} ALTER COLUMN id RESTART WITH {next_id}")
    statements = [*schema_editor.deferred_sql, *schema_editor._model_indexes_sql(model)]
    schema_editor.deferred_sql.clear()
    for statement in statements:
        cursor.execute(str(statement))


def _copy_grants(cursor: Any, source: str) -> None:
    """Give other roles what they may do with the former table, as where the servers do not own the tables."""
    cursor.execute(
        "SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END"
        " FROM pg_class, aclexplode(relacl) WHERE oid = %s::regclass AND grantee <> relowner",
        [source],
    )
    for privilege, role in cursor.fetchall():
        cursor.execute(f"GRANT {privilege} ON {TABLE} TO {role}")


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]

    operations = [migrations.RunPython(partition, merge, elidable=False)]
