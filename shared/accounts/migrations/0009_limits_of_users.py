from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0008_sign_in_networks")]

    operations = [
        migrations.AddField("signin", "token_version", models.PositiveIntegerField(null=True)),
        migrations.AddField(
            "user",
            "may_run_inference",
            models.BooleanField(db_default=True, default=True, verbose_name="may use the model server"),
        ),
        migrations.AddField(
            "user",
            "attachment_byte_limit",
            models.PositiveBigIntegerField(blank=True, null=True, verbose_name="bytes of attachments"),
        ),
        migrations.AddField(
            "user",
            "attachment_count_limit",
            models.PositiveIntegerField(blank=True, null=True, verbose_name="number of attachments"),
        ),
    ]
