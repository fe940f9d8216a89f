from django.db import migrations, models


class Migration(migrations.Migration):
    """Rename fields in Python only: columns, indexes and constraints keep their names."""

    dependencies = [("inference_batches", "0002_key_and_reserved_tokens")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("batchrequest", "inference_batches_pending"),
                migrations.RenameField("batch", "setbacks", "backoff_count"),
                migrations.RenameField("lease", "until", "expires_at"),
                migrations.RenameField("lease", "lonely_model", "isolated_model"),
                migrations.RenameField("batchrequest", "is_lonely", "is_isolated"),
                migrations.RenameField("sweeper", "until", "expires_at"),
                migrations.AlterField(
                    "batch", "backoff_count", models.PositiveSmallIntegerField(default=0, db_column="setbacks")
                ),
                migrations.AlterField("lease", "expires_at", models.DateTimeField(db_index=True, db_column="until")),
                migrations.AlterField(
                    "lease",
                    "isolated_model",
                    models.CharField(max_length=255, null=True, blank=True, unique=True, db_column="lonely_model"),
                ),
                migrations.AlterField(
                    "batchrequest", "is_isolated", models.BooleanField(default=False, db_column="is_lonely")
                ),
                migrations.AlterField("sweeper", "expires_at", models.DateTimeField(db_column="until")),
                migrations.AddIndex(
                    "batchrequest",
                    models.Index(
                        fields=["batch", "is_isolated", "index"],
                        name="inference_batches_pending",
                        condition=models.Q(status="pending"),
                    ),
                ),
            ]
        )
    ]
