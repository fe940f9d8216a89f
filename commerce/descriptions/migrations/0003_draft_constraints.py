"""Apart from what fills the rows: PostgreSQL alters no table whose rows the same transaction has changed."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    dependencies = [
        ('commerce_descriptions', '0002_drafts_allowances'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='descriptiondraft',
            index=models.Index(fields=['product', '-created_at', '-id'], name='commerce_draft_of_product'),
        ),
        migrations.AddConstraint(
            model_name='descriptiondraft',
            constraint=models.CheckConstraint(condition=Q(('state__in', ['open', 'accepted', 'discarded'])), name='commerce_description_draft_state_known'),
        ),
        migrations.AddConstraint(
            model_name='descriptiondraft',
            constraint=models.CheckConstraint(condition=Q(Q(('decided_at__isnull', True), ('decided_by__isnull', True), ('state', 'open')), Q(Q(('state', 'open'), _negated=True), ('decided_at__isnull', False), ('decided_by__isnull', False)), _connector='OR'), name='commerce_description_draft_decided_by_somebody'),
        ),
        migrations.AddConstraint(
            model_name='descriptiondraft',
            constraint=models.CheckConstraint(condition=Q(('text', ''), _negated=True), name='commerce_description_draft_has_text'),
        ),
    ]
