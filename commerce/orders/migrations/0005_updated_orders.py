"""Indexes of orders of lists, which PostgreSQL makes beside reads and writes."""

from django.conf import settings
from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_orders', '0004_orders_of_lists'),
        ('commerce_shops', '0007_attachment_quota'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='order',
            index=models.Index(condition=models.Q(('parent__isnull', True)), fields=['updated_at', 'id'], name='commerce_order_updated'),
        ),
        AddIndexBesideWrites(
            model_name='refund',
            index=models.Index(fields=['updated_at', 'id'], name='commerce_refund_updated'),
        ),
        AddIndexBesideWrites(
            model_name='refund',
            index=models.Index(fields=['amount', 'id'], name='commerce_refund_by_amount'),
        ),
    ]
