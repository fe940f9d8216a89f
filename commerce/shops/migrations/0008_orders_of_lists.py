"""Indexes of orders of lists, which PostgreSQL makes beside reads and writes."""

from django.conf import settings
from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_attachments', '0008_files_of_staff'),
        ('commerce_shops', '0007_attachment_quota'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='shop',
            index=models.Index(fields=['created_at', 'id'], name='commerce_shop_by_age'),
        ),
        AddIndexBesideWrites(
            model_name='shop',
            index=models.Index(fields=['updated_at', 'id'], name='commerce_shop_updated'),
        ),
        AddIndexBesideWrites(
            model_name='shop',
            index=models.Index(fields=['orders_count', 'id'], name='commerce_shop_by_orders'),
        ),
    ]
