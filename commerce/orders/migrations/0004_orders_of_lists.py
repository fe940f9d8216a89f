"""Indexes of the lists of all orders and refunds, which PostgreSQL makes beside reads and writes.

The index by status has ids in the direction in which the list is ordered by status.
"""

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites, RemoveIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_orders', '0003_parts_of_a_customer'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='order',
            index=models.Index(fields=['order_status', 'id'], name='commerce_order_of_status'),
        ),
        RemoveIndexBesideWrites(
            model_name='order',
            name='commerce_order_by_status',
        ),
        AddIndexBesideWrites(
            model_name='order',
            index=models.Index(condition=models.Q(('parent__isnull', True)), fields=['-created_at', '-id'], name='commerce_order_newest'),
        ),
        AddIndexBesideWrites(
            model_name='order',
            index=models.Index(condition=models.Q(('parent__isnull', True)), fields=['total', 'id'], name='commerce_order_by_total'),
        ),
        AddIndexBesideWrites(
            model_name='refund',
            index=models.Index(fields=['-created_at', '-id'], name='commerce_refund_newest'),
        ),
    ]
