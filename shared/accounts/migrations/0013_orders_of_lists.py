"""Indexes of orders of the lists of users, which PostgreSQL makes beside reads and writes."""

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('accounts', '0012_second_factor'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='user',
            index=models.Index(fields=['name', 'id'], name='accounts_user_by_name'),
        ),
        AddIndexBesideWrites(
            model_name='user',
            index=models.Index(fields=['created_at', 'id'], name='accounts_user_by_age'),
        ),
    ]
