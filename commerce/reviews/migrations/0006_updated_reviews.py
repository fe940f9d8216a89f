"""Indexes of orders of lists, which PostgreSQL makes beside reads and writes."""

from django.conf import settings
from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites, AddPostgresqlIndex


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_attachments', '0008_files_of_staff'),
        ('commerce_catalog', '0009_more_orders_of_lists'),
        ('commerce_orders', '0005_updated_orders'),
        ('commerce_reviews', '0005_newest'),
        ('commerce_shops', '0007_attachment_quota'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='question',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['updated_at', 'id'], name='commerce_question_updated'),
        ),
        AddIndexBesideWrites(
            model_name='question',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['answered_at', 'id'], name='commerce_question_answered'),
        ),
        AddIndexBesideWrites(
            model_name='review',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['updated_at', 'id'], name='commerce_review_updated'),
        ),
        # In descending order too, null comes last.
        AddPostgresqlIndex(
            "commerce_reviews_question",
            "(answered_at DESC NULLS LAST, id DESC) WHERE deleted_at IS NULL",
            "commerce_question_answered_descending",
        ),
    ]
