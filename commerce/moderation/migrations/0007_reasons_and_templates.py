import django.core.validators
import django.db.models.deletion
import re
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('commerce_moderation', '0006_rare_values'),
        ('commerce_shops', '0006_slugs_are_no_numbers'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='DecisionTemplate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('language', models.CharField(default='en', max_length=16, verbose_name='language')),
                ('text', models.TextField(help_text='May contain {product}, {shop} and {appeal_days}, which are filled in for each item.', max_length=1500, verbose_name='text')),
                ('is_active', models.BooleanField(default=True, help_text='Off: moderators are not offered it.', verbose_name='active')),
            ],
            options={
                'verbose_name': 'decision template',
                'verbose_name_plural': 'decision templates',
                'ordering': ['name', 'id'],
            },
        ),
        migrations.CreateModel(
            name='ReportReason',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('code', models.CharField(help_text='What clients of the API send.', max_length=32, unique=True, validators=[django.core.validators.RegexValidator(re.compile('^[-a-zA-Z0-9_]+\\Z'), 'Enter a valid “slug” consisting of letters, numbers, underscores or hyphens.', 'invalid')], verbose_name='code')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('severity', models.PositiveSmallIntegerField(choices=[(1, 'Low'), (2, 'Medium'), (3, 'High'), (4, 'Critical')], default=2, verbose_name='severity')),
                ('due_hours', models.PositiveSmallIntegerField(default=72, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(8760)], verbose_name='hours until due')),
                ('position', models.PositiveSmallIntegerField(default=0, verbose_name='position')),
                ('is_active', models.BooleanField(default=True, help_text='Off: no new report can have it.', verbose_name='active')),
            ],
            options={
                'verbose_name': 'report reason',
                'verbose_name_plural': 'report reasons',
                'ordering': ['position', 'id'],
            },
        ),
        migrations.AddField(
            model_name='case',
            name='due_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='case',
            name='severity',
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='decisiontemplate',
            name='reason',
            field=models.ForeignKey(blank=True, help_text='Empty: offered for every reason.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='templates', to='commerce_moderation.reportreason', verbose_name='report reason'),
        ),
        migrations.AddField(
            model_name='abusereport',
            name='reason',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='commerce_moderation.reportreason'),
        ),
        migrations.AddField(
            model_name='case',
            name='reason',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='commerce_moderation.reportreason'),
        ),
    ]
