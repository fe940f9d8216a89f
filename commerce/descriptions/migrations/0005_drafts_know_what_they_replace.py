import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('commerce_catalog', '0003_lists_by_price'),
        ('commerce_descriptions', '0004_jobs'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='descriptiondraft',
            options={'ordering': ['-created_at', '-id'], 'verbose_name': 'description draft', 'verbose_name_plural': 'description drafts'},
        ),
        migrations.AlterModelOptions(
            name='descriptionjob',
            options={'ordering': ['-id'], 'verbose_name': 'description job', 'verbose_name_plural': 'description jobs'},
        ),
        migrations.AddField(
            model_name='descriptiondraft',
            name='based_on',
            field=models.CharField(default='', editable=False, help_text='The `version_of` the description that the product had when this was asked for.', max_length=64),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='jobitem',
            name='based_on',
            field=models.CharField(default='', editable=False, help_text='As its draft will have it.', max_length=64),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='author',
            field=models.ForeignKey(help_text='Who asked for it.', on_delete=django.db.models.deletion.PROTECT, related_name='description_drafts', to=settings.AUTH_USER_MODEL, verbose_name='author'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='created_at',
            field=models.DateTimeField(verbose_name='created at'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='decided_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='decided at'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='decided_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='decided by'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='edited_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='edited at'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='keywords',
            field=models.JSONField(blank=True, default=list, verbose_name='keywords'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='language',
            field=models.CharField(default='en', max_length=16, verbose_name='language'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='max_words',
            field=models.PositiveSmallIntegerField(blank=True, null=True, verbose_name='max words'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='model',
            field=models.CharField(help_text='The model that wrote it.', max_length=255, verbose_name='model'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='product',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='description_drafts', to='commerce_catalog.product', verbose_name='product'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='state',
            field=models.CharField(choices=[('open', 'Open'), ('accepted', 'Accepted'), ('discarded', 'Discarded')], default='open', max_length=16, verbose_name='state'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='text',
            field=models.TextField(verbose_name='text'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='tone',
            field=models.CharField(blank=True, max_length=32, verbose_name='tone'),
        ),
        migrations.AlterField(
            model_name='descriptiondraft',
            name='written',
            field=models.TextField(editable=False, verbose_name='written'),
        ),
        migrations.AlterField(
            model_name='descriptionjob',
            name='author',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='author'),
        ),
        migrations.AlterField(
            model_name='descriptionjob',
            name='created_at',
            field=models.DateTimeField(verbose_name='created at'),
        ),
        migrations.AlterField(
            model_name='descriptionjob',
            name='ended_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='ended at'),
        ),
        migrations.AlterField(
            model_name='descriptionjob',
            name='state',
            field=models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('completed', 'Completed'), ('cancelled', 'Cancelled'), ('failed', 'Failed')], default='waiting', max_length=16, verbose_name='state'),
        ),
        migrations.CreateModel(
            name='ServerSilence',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('times', models.PositiveIntegerField(default=0)),
                ('rests_until', models.DateTimeField(null=True)),
                ('asked_until', models.DateTimeField(null=True)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='commerce_description_silence_one_row')],
            },
        ),
    ]
