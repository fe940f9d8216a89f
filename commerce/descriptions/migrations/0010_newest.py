"""Index of the list of drafts, which PostgreSQL makes beside reads and writes."""

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_descriptions', '0009_checked_drafts'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='descriptiondraft',
            index=models.Index(fields=['-created_at', '-id'], name='commerce_draft_newest'),
        ),
    ]
