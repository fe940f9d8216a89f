"""Indexes of orders of the list of products, which PostgreSQL makes beside reads and writes.

The index of a shop's products is made anew without the deleted ones: it counts the products of a shop alone.
"""

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites, RemoveIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_catalog', '0007_best_selling'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['shop', 'status', '-id'], name='commerce_product_live_of_shop'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True), models.Q(('status', 'publish'), _negated=True)), fields=['-id', 'shop', 'language'], name='commerce_product_unpublished'),
        ),
        RemoveIndexBesideWrites(
            model_name='product',
            name='commerce_product_of_shop',
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['language', 'status', 'created_at', 'id'], name='commerce_product_by_age'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['language', 'status', 'max_price', 'id'], name='commerce_product_by_max_price'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['language', 'status', 'ratings', 'id'], name='commerce_product_by_rating'),
        ),
    ]
