"""Indexes of orders of lists, which PostgreSQL makes beside reads and writes."""

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites, AddPostgresqlIndex


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_attachments', '0008_files_of_staff'),
        ('commerce_attributes', '0001_initial'),
        ('commerce_catalog', '0008_orders_of_lists'),
        ('commerce_shops', '0007_attachment_quota'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['language', 'status', 'price', 'id'], name='commerce_product_by_full_price'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['language', 'status', 'sale_price', 'id'], name='commerce_product_by_sale_price'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(fields=['language', 'status', 'quantity', 'id'], name='commerce_product_by_quantity'),
        ),
        # In descending order too, null comes last.
        AddPostgresqlIndex(
            "commerce_catalog_product",
            "(language, status, sale_price DESC NULLS LAST, id DESC)",
            "commerce_product_by_sale_price_descending",
        ),
    ]
