from django.db import migrations, models


class Migration(migrations.Migration):
    """Change help texts only."""

    dependencies = [("inference_files", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    "storedfile",
                    "name",
                    models.CharField(
                        max_length=255,
                        help_text="The name given by the owner. The content is stored under another one.",
                    ),
                ),
                migrations.AlterField(
                    "storedfile", "size", models.PositiveBigIntegerField(help_text="Size in bytes.")
                ),
            ]
        )
    ]
