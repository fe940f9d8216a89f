import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import F, Q


def keep_what_was_written(apps, schema_editor):
    apps.get_model("commerce_descriptions", "DescriptionDraft").objects.update(written=F("text"))


class Migration(migrations.Migration):

    dependencies = [
        ('commerce_catalog', '0003_lists_by_price'),
        ('commerce_shops', '0004_invitations_by_email'),
        ('commerce_descriptions', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='descriptiondraft',
            name='decided_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='decided_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='edited_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='keywords',
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='language',
            field=models.CharField(default='en', max_length=16),
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='max_words',
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='state',
            field=models.CharField(choices=[('open', 'Open'), ('accepted', 'Accepted'), ('discarded', 'Discarded')], default='open', max_length=16),
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='tone',
            field=models.CharField(blank=True, max_length=32),
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='written',
            field=models.TextField(default='', editable=False),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='author',
            field=models.ForeignKey(help_text='Who asked for it.', on_delete=django.db.models.deletion.PROTECT, related_name='description_drafts', to=settings.AUTH_USER_MODEL),
        ),
        migrations.RunPython(keep_what_was_written, migrations.RunPython.noop),
        migrations.CreateModel(
            name='Allowance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField(help_text='In UTC.')),
                ('used', models.PositiveIntegerField(default=0)),
                ('shop', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='commerce_shops.shop')),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-day', 'id'],
                'constraints': [
                    models.UniqueConstraint(fields=('shop', 'day'), name='commerce_allowance_one_a_shop_and_day'),
                    models.UniqueConstraint(fields=('user', 'day'), name='commerce_allowance_one_a_user_and_day'),
                    models.CheckConstraint(condition=Q(('shop__isnull', False), ('user__isnull', True)) | Q(('shop__isnull', True), ('user__isnull', False)), name='commerce_allowance_of_a_shop_or_a_user'),
                ],
            },
        ),
    ]
