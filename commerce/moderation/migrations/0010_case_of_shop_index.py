from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_moderation', '0009_escalation_and_sanctions'),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True), ('is_escalated', True)), fields=['oldest_at'], name='commerce_queue_escalated'),
        ),
        AddIndexBesideWrites(
            model_name='case',
            index=models.Index(fields=['shop', '-id'], name='commerce_case_of_shop'),
        ),
    ]
