"""What a customer bought from a shop is found by an index: the first order that is left, once others went.

PostgreSQL makes it while orders are written.
"""

from typing import Any

from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class AddIndexBesideWrites(AddIndexConcurrently):
    """SQLite makes it as any other."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        kind = AddIndexConcurrently if schema_editor.connection.vendor == "postgresql" else migrations.AddIndex
        kind.database_forwards(self, app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        kind = AddIndexConcurrently if schema_editor.connection.vendor == "postgresql" else migrations.AddIndex
        kind.database_backwards(self, app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("commerce_orders", "0002_children_only_index"),
        ("commerce_shops", "0006_slugs_are_no_numbers"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name="order",
            index=models.Index(
                condition=models.Q(("shop__isnull", False)), fields=["customer", "shop"], name="commerce_order_of_pair"
            ),
        ),
    ]
