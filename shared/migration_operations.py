"""Operations of migrations that leave a large table usable. Their migrations have `atomic = False`.

Such a migration is not undone where it fails half-way. So each of these operations may run twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.operations.base import Operation
from django.db.models import Index, Model

INDEX_IS_VALID = {
    "postgresql": "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)",
    "sqlite": "SELECT true FROM sqlite_master WHERE type = 'index' AND name = %s",
}


class AddIndexBesideWrites(AddIndexConcurrently):
    """Make an index while PostgreSQL goes on reading and writing the table. SQLite makes it as any other."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _add_index(schema_editor, to_state.apps.get_model(app_label, self.model_name), self.index)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _remove_index(schema_editor, from_state.apps.get_model(app_label, self.model_name), self.index)


class RemoveIndexBesideWrites(RemoveIndexConcurrently):
    """Drop an index while PostgreSQL goes on reading and writing the table. SQLite drops it as any other."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _remove_index(schema_editor, *self._find(app_label, from_state))

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _add_index(schema_editor, *self._find(app_label, to_state))

    def _find(self, app_label: str, state: Any) -> tuple[type[Model], Index]:
        index = state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
        return state.apps.get_model(app_label, self.model_name), index


class AddPostgresqlIndex(Operation):
    """Make an index on PostgreSQL alone, which no model declares.

    definition: what follows the table's name in CREATE INDEX.
    """

    reduces_to_sql = False
    reversible = True
    atomic = False

    def __init__(self, table: str, definition: str, name: str) -> None:
        self.table, self.definition, self.name = table, definition, name

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: no model declares the index."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql" and not _is_valid_index(schema_editor, self.name):
            with without_lock_timeout(schema_editor.connection):
                schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self.name}")
                schema_editor.execute(f"CREATE INDEX CONCURRENTLY {self.name} ON {self.table} {self.definition}")

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            with without_lock_timeout(schema_editor.connection):
                schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self.name}")

    def describe(self) -> str:
        return f"Make the index {self.name}"


class AddTextIndex(AddPostgresqlIndex):
    """Make the index that `shared.api.lists.text_search.rows_with_words` reads. SQLite has none."""

    def __init__(self, table: str, column: str, name: str) -> None:
        super().__init__(table, f"USING gin (to_tsvector('simple', {column}))", name)


def _add_index(schema_editor: Any, model: type[Model], index: Index) -> None:
    """Make the index unless it exists; make it again if its creation was interrupted."""
    if not _is_valid_index(schema_editor, index.name):
        _remove_index(schema_editor, model, index)
        with without_lock_timeout(schema_editor.connection):
            schema_editor.add_index(model, index, **_beside_writes(schema_editor))


def _remove_index(schema_editor: Any, model: type[Model], index: Index) -> None:
    """Drop the index if it exists."""
    if _is_valid_index(schema_editor, index.name) is not None:
        with without_lock_timeout(schema_editor.connection):
            schema_editor.remove_index(model, index, **_beside_writes(schema_editor))


def _beside_writes(schema_editor: Any) -> dict[str, bool]:
    return {"concurrently": True} if schema_editor.connection.vendor == "postgresql" else {}


def _is_valid_index(schema_editor: Any, name: str) -> bool | None:
    """Return None if there is no index of this name, and False if its creation was interrupted."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(INDEX_IS_VALID[schema_editor.connection.vendor], [name])
        row = cursor.fetchone()
    return row and bool(row[0])


@contextmanager
def without_lock_timeout(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let statements wait for all transactions before them, as concurrent ones do: no client waits for those."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), set_config('lock_timeout', '0', false)")
        (timeout, _) = cursor.fetchone()
        try:
            yield
        finally:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [timeout])
