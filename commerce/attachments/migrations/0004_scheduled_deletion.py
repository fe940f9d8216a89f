"""Rename the model Leftover to ScheduledDeletion. The table keeps its name."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("commerce_attachments", "0003_finalized_uploads"),
    ]

    operations = [
        migrations.AlterModelTable(name="leftover", table="commerce_attachments_leftover"),
        migrations.RenameModel(old_name="Leftover", new_name="ScheduledDeletion"),
        migrations.AlterField(
            model_name="attachment",
            name="size",
            field=models.PositiveBigIntegerField(help_text="Size of the stored file in bytes."),
        ),
    ]
