"""Index of the list of decisions by time, which PostgreSQL makes beside reads and writes."""

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_moderation', '0014_suggestions'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='decision',
            index=models.Index(fields=['-created_at', '-id'], name='commerce_decision_newest'),
        ),
    ]
