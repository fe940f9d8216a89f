"""A vector for each case and model. All are made anew, and so is what was learned from them: their texts are others."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("commerce_moderation", "0014_suggestions")]

    operations = [
        migrations.DeleteModel(name="CaseVector"),
        migrations.DeleteModel(name="SuggestionModel"),
        migrations.CreateModel(
            name="CaseVector",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model", models.CharField(editable=False, max_length=255)),
                ("dimensions", models.PositiveIntegerField(editable=False)),
                ("vector", models.BinaryField()),
                ("fingerprint", models.CharField(editable=False, max_length=32)),
                ("group", models.BigIntegerField(editable=False)),
                ("source_updated_at", models.DateTimeField(editable=False)),
                ("embedded_at", models.DateTimeField(editable=False)),
                (
                    "case",
                    models.ForeignKey(
                        db_index=False,
                        editable=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="vectors",
                        to="commerce_moderation.case",
                    ),
                ),
                (
                    "reason",
                    models.ForeignKey(
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="commerce_moderation.reportreason",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("case", "model"), name="commerce_case_vector_one_a_model")
                ],
                "indexes": [models.Index(fields=["group"], name="commerce_case_vector_group")],
            },
        ),
        migrations.CreateModel(
            name="SuggestionModel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model", models.CharField(editable=False, max_length=255, unique=True)),
                ("dimensions", models.PositiveIntegerField(default=0, editable=False)),
                ("weights", models.BinaryField(default=bytes)),
                ("rules", models.JSONField(default=dict, editable=False)),
                ("decisions_count", models.PositiveIntegerField(default=0, editable=False)),
                ("attempted_at", models.DateTimeField(editable=False, null=True)),
                ("trained_at", models.DateTimeField(editable=False, null=True)),
            ],
            options={"default_permissions": ()},
        ),
    ]
