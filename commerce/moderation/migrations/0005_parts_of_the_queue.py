from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('commerce_moderation', '0004_words_of_decisions'),
        ('commerce_shops', '0004_invitations_by_email'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='decision',
            name='commerce_decision_newest',
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True)), fields=['oldest_at'], name='commerce_queue_age'),
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True)), fields=['shop', 'oldest_at'], name='commerce_queue_of_shop'),
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True), models.Q(('hiding', ''), _negated=True)), fields=['hiding', 'oldest_at'], name='commerce_queue_hidden'),
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True), ('is_brigaded', True)), fields=['oldest_at'], name='commerce_queue_brigaded'),
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True), ('state', 'appealed')), fields=['oldest_at'], name='commerce_queue_appealed'),
        ),
        migrations.AddIndex(
            model_name='decision',
            index=models.Index(condition=models.Q(('undone_at', None)), fields=['-created_at', 'action', 'reports_count'], name='commerce_decision_standing'),
        ),
    ]
