"""What a customer bought from a shop is found by an index: the first order that is left, once others went.

PostgreSQL makes it while orders are written.
"""

from django.conf import settings
from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


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
