from datetime import timedelta

from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites, AddTextIndex, RemoveIndexBesideWrites


def fill_due_times(apps, schema_editor):
    """Give the waiting cases, none of whose reports has a reason yet, the time of reports without one."""
    cases = apps.get_model("commerce_moderation", "Case").objects.filter(is_waiting=True, due_at=None)
    for pk, oldest_at in cases.values_list("pk", "oldest_at").iterator(chunk_size=1000):
        cases.filter(pk=pk).update(due_at=oldest_at + timedelta(days=3))


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("accounts", "0008_sign_in_networks"),
        ("commerce_catalog", "0001_initial"),
        ("commerce_moderation", "0007_reasons_and_templates"),
        ("commerce_shops", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(fill_due_times, migrations.RunPython.noop),
        RemoveIndexBesideWrites(
            model_name='case',
            name='commerce_queue_newest',
        ),
        RemoveIndexBesideWrites(
            model_name='case',
            name='commerce_queue_oldest',
        ),
        RemoveIndexBesideWrites(
            model_name='case',
            name='commerce_queue_reports',
        ),
        RemoveIndexBesideWrites(
            model_name='case',
            name='commerce_queue_weight',
        ),
        AddIndexBesideWrites(
            model_name='abusereport',
            index=models.Index(fields=['reason', 'status', '-created_at', '-id'], name='commerce_report_by_reason'),
        ),
        AddIndexBesideWrites(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True)), fields=['-newest_at', '-id', 'oldest_at', 'model_type', 'shop', 'language', 'hiding', 'is_brigaded', 'state', 'reason', 'severity'], name='commerce_queue_newest'),
        ),
        AddIndexBesideWrites(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True)), fields=['oldest_at', 'id', 'model_type', 'shop', 'language', 'hiding', 'is_brigaded', 'state', 'reason', 'severity'], name='commerce_queue_oldest'),
        ),
        AddIndexBesideWrites(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True)), fields=['-reports_count', '-id', 'oldest_at', 'model_type', 'shop', 'language', 'hiding', 'is_brigaded', 'state', 'reason', 'severity'], name='commerce_queue_reports'),
        ),
        AddIndexBesideWrites(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True)), fields=['-weight', '-id', 'oldest_at', 'model_type', 'shop', 'language', 'hiding', 'is_brigaded', 'state', 'reason', 'severity'], name='commerce_queue_weight'),
        ),
        AddIndexBesideWrites(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True)), fields=['due_at', 'id', 'oldest_at', 'model_type', 'shop', 'language', 'hiding', 'is_brigaded', 'state', 'reason', 'severity'], name='commerce_queue_due'),
        ),
        AddIndexBesideWrites(
            model_name='case',
            index=models.Index(condition=models.Q(('is_waiting', True)), fields=['-severity', 'due_at', 'id', 'oldest_at', 'model_type', 'shop', 'language', 'hiding', 'is_brigaded', 'state', 'reason'], name='commerce_queue_severity'),
        ),
        AddTextIndex("commerce_moderation_abusereport", "message", "commerce_report_text"),
        AddTextIndex("accounts_user", "name", "commerce_user_text"),
        AddTextIndex("commerce_shops_shop", "name", "commerce_shop_text"),
        AddTextIndex("commerce_catalog_product", "name", "commerce_product_name_text"),
    ]
