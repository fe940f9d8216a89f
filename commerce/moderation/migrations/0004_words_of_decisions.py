import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('commerce_moderation', '0003_cases_of_earlier_reports'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='decision',
            options={'ordering': ['-id'], 'verbose_name': 'decision', 'verbose_name_plural': 'decisions'},
        ),
        migrations.AlterField(
            model_name='decision',
            name='action',
            field=models.CharField(choices=[('accepted', 'Taken down'), ('rejected', 'Kept, and its reports deleted'), ('hidden', 'Hidden for now'), ('shown', 'Shown again'), ('warned', 'Its author was warned'), ('restored', 'Restored after it was taken down'), ('report_deleted', 'A report was deleted'), ('appeal_kept', 'Appeal: it stays down'), ('appeal_overturned', 'Appeal: restored')], max_length=24, verbose_name='action'),
        ),
        migrations.AlterField(
            model_name='decision',
            name='created_at',
            field=models.DateTimeField(verbose_name='created at'),
        ),
        migrations.AlterField(
            model_name='decision',
            name='moderator',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to=settings.AUTH_USER_MODEL, verbose_name='moderator'),
        ),
        migrations.AlterField(
            model_name='decision',
            name='note',
            field=models.TextField(blank=True, verbose_name='note'),
        ),
        migrations.AlterField(
            model_name='decision',
            name='reports_count',
            field=models.PositiveIntegerField(default=0, verbose_name='reports count'),
        ),
        migrations.AlterField(
            model_name='decision',
            name='undone_at',
            field=models.DateTimeField(null=True, verbose_name='undone at'),
        ),
    ]
