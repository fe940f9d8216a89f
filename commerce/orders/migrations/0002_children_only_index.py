"""The index on the parent loses the rows without one.

It is dropped by its name: changing the field would make SQLite copy the table, and lose the triggers on it.
"""

import django.db.models.deletion
from django.db import migrations, models

INDEX = "commerce_orders_order_parent_id_5d620fed"


class Migration(migrations.Migration):
    dependencies = [("commerce_orders", "0001_initial")]

    operations = [
        migrations.AddIndex(
            model_name="order",
            index=models.Index(
                condition=models.Q(("parent__isnull", False)), fields=["parent"], name="commerce_order_of_parent"
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    f"DROP INDEX {INDEX}", f"CREATE INDEX {INDEX} ON commerce_orders_order (parent_id)"
                )
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="order",
                    name="parent",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="commerce_orders.order",
                    ),
                )
            ],
        ),
    ]
