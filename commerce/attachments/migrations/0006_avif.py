"""Add whether an image's variants exist as AVIF."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("commerce_attachments", "0005_alt_focal_point"),
    ]

    operations = [
        migrations.AddField(
            model_name="attachment",
            name="has_avif",
            field=models.BooleanField(
                db_default=False, default=False, editable=False, verbose_name="has AVIF variants"
            ),
        ),
    ]
