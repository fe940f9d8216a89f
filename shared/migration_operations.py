"""Operations of migrations that leave a large table usable. Their migrations have `atomic = False`."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django.db.migrations.operations.base import Operation


class AddIndexBesideWrites(AddIndexConcurrently):
    """Make an index while PostgreSQL goes on reading and writing the table. SQLite makes it as any other."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        kind = AddIndexConcurrently if schema_editor.connection.vendor == "postgresql" else migrations.AddIndex
        kind.database_forwards(self, app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        kind = AddIndexConcurrently if schema_editor.connection.vendor == "postgresql" else migrations.AddIndex
        kind.database_backwards(self, app_label, schema_editor, from_state, to_state)


class AddTextIndex(Operation):
    """Make the index that `shared.api.lists.text_search.rows_with_words` reads. SQLite has none."""

    reduces_to_sql = False
    reversible = True
    atomic = False

    def __init__(self, table: str, column: str, name: str) -> None:
        self.table, self.column, self.name = table, column, name

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing: no model declares the index."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(
                f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {self.name} ON {self.table} "
                f"USING gin (to_tsvector('simple', {self.column}))"
            )

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self.name}")

    def describe(self) -> str:
        return f"Make the text index {self.name}"
