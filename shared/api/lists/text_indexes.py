"""Trigram indexes of long texts, so that `search=description:oak` reads only some of a million rows.

PostgreSQL has them in pg_trgm, part of its contrib package, which not every server has. They are created after
migrations rather than by one. Without the extension nothing fails, and the first migration after its installation
creates them. SQLite reads all rows, within the limits of `shared.api.limits.query_limits`.

An app names its searched columns: `text_search_fields = {"product": ["name", "description"]}`.
"""

from collections.abc import Iterator
from typing import Any

import structlog
from django.apps import apps
from django.db import ProgrammingError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from shared.migration_operations import without_lock_timeout

EXTENSION = "pg_trgm"

logger = structlog.get_logger(__name__)


def create_text_indexes(*, using: str, **kwargs: Any) -> None:
    """Create missing indexes after migrations, without blocking writes."""
    connection, wanted = connections[using], list(_searched_columns())
    if connection.vendor != "postgresql" or not wanted or not _has_trigrams(connection):
        return
    tables = set(connection.introspection.table_names())
    concurrently = "" if connection.in_atomic_block else "CONCURRENTLY"
    with without_lock_timeout(connection), connection.cursor() as cursor:
        _drop_invalid_indexes(cursor, [name for name, _, _ in wanted])
        for name, table, column in wanted:
            if table in tables:  # otherwise the database is migrated back to before it
                cursor.execute(
                    f'CREATE INDEX {concurrently} IF NOT EXISTS "{name}" ON "{table}" '
                    f'USING gin (UPPER("{column}"::text) gin_trgm_ops)'  # the expression of Django's icontains
                )


def _searched_columns() -> Iterator[tuple[str, str, str]]:
    """Return the name of each index with its table and column."""
    for app in apps.get_app_configs():
        for model_name, columns in getattr(app, "text_search_fields", {}).items():
            table = app.get_model(model_name)._meta.db_table
            for column in columns:
                yield f"{table}_{column}_text", table, column


def _drop_invalid_indexes(cursor: CursorWrapper, names: list[str]) -> None:
    """Drop indexes whose creation was interrupted: they are updated with each write, but never read."""
    cursor.execute(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE NOT i.indisvalid AND c.relname = ANY(%s)",
        [names],
    )
    for (name,) in cursor.fetchall():
        cursor.execute(f'DROP INDEX "{name}"')


def _has_trigrams(connection: BaseDatabaseWrapper) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT installed_version FROM pg_available_extensions WHERE name = %s", [EXTENSION])
        found = cursor.fetchone()
    if found is None:
        logger.info("text_indexes_not_made", reason=f"{EXTENSION} is not on this server")
        return False
    return found[0] is not None or _install(connection)


def _install(connection: BaseDatabaseWrapper) -> bool:
    """Install the extension, which is trusted: the owner of the database may."""
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
    except ProgrammingError:
        logger.warning("text_indexes_not_made", reason=f"the user may not CREATE EXTENSION {EXTENSION}")
        return False
    return True
