"""Operations of migrations that leave a large table usable. Their migrations have `atomic = False`."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations


class AddIndexBesideWrites(AddIndexConcurrently):
    """Make an index while PostgreSQL goes on reading and writing the table. SQLite makes it as any other."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        kind = AddIndexConcurrently if schema_editor.connection.vendor == "postgresql" else migrations.AddIndex
        kind.database_forwards(self, app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        kind = AddIndexConcurrently if schema_editor.connection.vendor == "postgresql" else migrations.AddIndex
        kind.database_backwards(self, app_label, schema_editor, from_state, to_state)
