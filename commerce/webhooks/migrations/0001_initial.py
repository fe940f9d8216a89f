import django.db.models.deletion
import shared.webhooks.models
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.CharField(default=shared.webhooks.models.make_endpoint_id, editable=False, max_length=40, unique=True, verbose_name='id')),
                ('is_default', models.BooleanField(default=False)),
                ('url', models.CharField(blank=True, max_length=2048)),
                ('events', models.JSONField(blank=True, default=list)),
                ('is_enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('disabled_by', models.CharField(blank=True, choices=[('owner', 'Owner'), ('receiver', 'Receiver (410 Gone)'), ('operator', 'Operator')], max_length=16)),
                ('secret', models.TextField()),
                ('previous_secret', models.TextField(blank=True)),
                ('previous_secret_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='webhooks', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.CharField(default=shared.webhooks.models.make_message_id, editable=False, max_length=40, unique=True, verbose_name='id')),
                ('event', models.CharField(max_length=64)),
                ('url', models.CharField(max_length=2048)),
                ('destination', models.CharField(blank=True, max_length=300)),
                ('body', models.TextField()),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('sending', 'Sending'), ('delivered', 'Delivered'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='pending', max_length=16)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('due_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(null=True)),
                ('endpoint', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='commerce_webhooks.endpoint')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('started_at', models.DateTimeField()),
                ('duration_ms', models.PositiveIntegerField()),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('failure', models.CharField(blank=True, choices=[('address_refused', 'The address is not public'), ('name_unknown', 'Name lookup failed'), ('not_connected', 'Connection failed'), ('tls', 'TLS failed: invalid certificate or protocol'), ('timed_out', 'Timed out'), ('broken_answer', 'Connection lost or invalid response'), ('too_large', 'Response too large'), ('redirected', 'Redirect (not followed)'), ('status', 'Unsuccessful status'), ('secret_lost', 'Secret cannot be decrypted: rotate it'), ('internal', 'Internal error')], max_length=24)),
                ('delivery', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='attempt_log', to='commerce_webhooks.delivery')),
            ],
            options={
                'ordering': ['delivery', 'number'],
                'constraints': [models.UniqueConstraint(fields=('delivery', 'number'), name='commerce_attempt_number_once')],
            },
        ),
        migrations.AddConstraint(
            model_name='endpoint',
            constraint=models.UniqueConstraint(fields=('user', 'url'), name='commerce_webhook_address_once'),
        ),
        migrations.AddConstraint(
            model_name='endpoint',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('is_default', True), ('url', '')), models.Q(('is_default', False), models.Q(('url', ''), _negated=True)), _connector='OR'), name='commerce_webhook_default_has_no_address'),
        ),
        migrations.AddConstraint(
            model_name='endpoint',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('disabled_by', ''), ('is_enabled', True)), models.Q(('disabled_by__in', ['owner', 'receiver', 'operator']), ('is_enabled', False)), _connector='OR'), name='commerce_webhook_disabled_by_somebody'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(fields=['endpoint', '-id'], name='commerce_delivery_of_endpoint'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='commerce_delivery_due'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['finished_at'], name='commerce_delivery_finished'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', False), ('finished_at', None), ('state__in', ['pending', 'sending'])), models.Q(('due_at', None), ('finished_at__isnull', False), ('state__in', ['delivered', 'failed', 'cancelled'])), _connector='OR'), name='commerce_delivery_due_or_finished'),
        ),
    ]
