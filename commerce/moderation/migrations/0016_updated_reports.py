"""Indexes of orders of lists, which PostgreSQL makes beside reads and writes."""

from django.conf import settings
from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_moderation', '0015_newest_decisions'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='abusereport',
            index=models.Index(fields=['status', 'updated_at', 'id'], name='commerce_report_updated'),
        ),
    ]
