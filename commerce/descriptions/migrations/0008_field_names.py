"""Rename models and fields in Django's state. Tables, columns, constraints and indexes keep their names."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("commerce_descriptions", "0007_rare_values"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterModelTable("allowance", "commerce_descriptions_allowance"),
                migrations.RenameModel("Allowance", "QuotaUsage"),
                migrations.AlterField("quotausage", "day", models.DateField(help_text="Day in UTC.")),
                migrations.AlterModelTable("serversilence", "commerce_descriptions_serversilence"),
                migrations.RenameModel("ServerSilence", "ServerCooldown"),
                migrations.RenameField("servercooldown", "times", "failure_count"),
                migrations.AlterField(
                    "servercooldown", "failure_count", models.PositiveIntegerField(db_column="times", default=0)
                ),
                migrations.RenameField("servercooldown", "rests_until", "cooldown_until"),
                migrations.AlterField(
                    "servercooldown", "cooldown_until", models.DateTimeField(db_column="rests_until", null=True)
                ),
                migrations.RenameField("servercooldown", "asked_until", "probe_until"),
                migrations.AlterField(
                    "servercooldown", "probe_until", models.DateTimeField(db_column="asked_until", null=True)
                ),
                migrations.RemoveIndex("descriptionjob", "commerce_description_jobs_open"),
                migrations.RenameField("descriptionjob", "look_at", "next_check_at"),
                migrations.AlterField("descriptionjob", "next_check_at", models.DateTimeField(db_column="look_at")),
                migrations.AddIndex(
                    "descriptionjob",
                    models.Index(
                        condition=models.Q(("ended_at", None)),
                        fields=["next_check_at"],
                        name="commerce_description_jobs_open",
                    ),
                ),
                migrations.RenameField("descriptionjob", "setbacks", "failure_count"),
                migrations.AlterField(
                    "descriptionjob",
                    "failure_count",
                    models.PositiveIntegerField(
                        db_column="setbacks",
                        default=0,
                        help_text="Consecutive calls that the model server did not answer.",
                    ),
                ),
                migrations.RemoveConstraint("jobitem", "commerce_description_item_place_once"),
                migrations.RenameField("jobitem", "place", "position"),
                migrations.AlterField("jobitem", "position", models.PositiveIntegerField(db_column="place")),
                migrations.AlterModelOptions("jobitem", {"ordering": ["job", "position"]}),
                migrations.AddConstraint(
                    "jobitem",
                    models.UniqueConstraint(fields=["job", "position"], name="commerce_description_item_place_once"),
                ),
                migrations.RenameField("jobitem", "allowance", "quota_usage"),
                migrations.AlterField(
                    "jobitem",
                    "quota_usage",
                    models.ForeignKey(
                        db_column="allowance_id",
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="commerce_descriptions.quotausage",
                    ),
                ),
                migrations.AlterField(
                    "descriptiondraft",
                    "author",
                    models.ForeignKey(
                        help_text="The user who requested the draft.",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="description_drafts",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="author",
                    ),
                ),
                migrations.AlterField(
                    "descriptiondraft",
                    "based_on",
                    models.CharField(
                        editable=False,
                        help_text="Digest of the product's description when the draft was requested.",
                        max_length=64,
                    ),
                ),
                migrations.AlterField(
                    "descriptiondraft",
                    "max_words",
                    models.PositiveSmallIntegerField(blank=True, null=True, verbose_name="maximum words"),
                ),
                migrations.AlterField(
                    "descriptiondraft",
                    "model",
                    models.CharField(
                        help_text="The model that wrote the draft.", max_length=255, verbose_name="model"
                    ),
                ),
                migrations.AlterField(
                    "descriptiondraft", "written", models.TextField(editable=False, verbose_name="generated text")
                ),
                migrations.AlterField(
                    "descriptionjob",
                    "error",
                    models.CharField(blank=True, help_text="Reason why the whole job failed.", max_length=255),
                ),
                migrations.AlterField(
                    "descriptionjob",
                    "key",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, help_text="Namespace of the batch's idempotency key."
                    ),
                ),
                migrations.AlterField(
                    "descriptionjob",
                    "language",
                    models.CharField(blank=True, help_text="Empty for each product's own language.", max_length=16),
                ),
                migrations.AlterField(
                    "jobitem",
                    "based_on",
                    models.CharField(editable=False, help_text="Value of `based_on` for the draft.", max_length=64),
                ),
                migrations.AlterField(
                    "jobitem",
                    "error",
                    models.CharField(
                        blank=True, help_text="Error code of the model server or of processing.", max_length=64
                    ),
                ),
            ]
        ),
    ]
