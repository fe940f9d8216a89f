from django.db import migrations, models


class Migration(migrations.Migration):
    """Rename fields in Python only: columns keep their names."""

    dependencies = [("inference_openai_batches", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("filebatch", "output_kept_s", "output_ttl_seconds"),
                migrations.AlterField(
                    "filebatch",
                    "output_ttl_seconds",
                    models.PositiveIntegerField(null=True, db_column="output_kept_s"),
                ),
                migrations.RenameField("filebatch", "finishing_until", "write_lease_expires_at"),
                migrations.AlterField(
                    "filebatch",
                    "write_lease_expires_at",
                    models.DateTimeField(null=True, db_column="finishing_until"),
                ),
                migrations.AlterModelOptions(
                    "filebatch", {"verbose_name": "OpenAI batch", "verbose_name_plural": "OpenAI batches"}
                ),
            ]
        )
    ]
