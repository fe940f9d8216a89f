"""Indexes of lists of products, which PostgreSQL makes beside reads and writes."""

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_attachments', '0004_scheduled_deletion'),
        ('commerce_attributes', '0001_initial'),
        ('commerce_catalog', '0006_attribute_values'),
        ('commerce_shops', '0006_slugs_are_no_numbers'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='variation',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['quantity', 'product'], name='commerce_variation_low_stock'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['updated_at'], name='commerce_product_updated'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['language', 'status', 'deleted_at', 'shop', 'type', 'currency', 'min_price', 'ratings', 'quantity'], name='commerce_product_facets'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['language', 'status', '-sold_quantity', '-id'], name='commerce_product_best_selling'),
        ),
    ]
