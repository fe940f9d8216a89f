"""Indexes of the lists of all reviews and questions, which PostgreSQL makes beside reads and writes."""

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_reviews', '0004_text_indexes'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='question',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['-created_at', '-id'], name='commerce_question_newest'),
        ),
        AddIndexBesideWrites(
            model_name='review',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['-created_at', '-id'], name='commerce_review_newest'),
        ),
        AddIndexBesideWrites(
            model_name='review',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True)), fields=['rating', 'id'], name='commerce_review_by_rating'),
        ),
    ]
