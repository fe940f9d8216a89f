from django.db import migrations, models

KINDS = ["native", "chat", "completion", "embedding"]


def name_former_kinds(apps, schema_editor):
    """Give batches of kinds that the former version does not know one that it lists without their answers."""
    apps.get_model("inference_batches", "Batch").objects.filter(kind__in=["response", "message"]).update(kind="chat")


class Migration(migrations.Migration):
    dependencies = [("inference_batches", "0003_field_names")]

    operations = [
        migrations.RemoveConstraint("batch", "inference_batches_kind_known"),
        migrations.AlterField(
            "batch",
            "kind",
            models.CharField(
                max_length=16,
                choices=[
                    ("native", "Native"),
                    ("chat", "Chat"),
                    ("completion", "Completion"),
                    ("embedding", "Embedding"),
                    ("response", "Response"),
                    ("message", "Message"),
                ],
            ),
        ),
        migrations.AddConstraint(
            "batch",
            models.CheckConstraint(
                condition=models.Q(kind__in=[*KINDS, "response", "message"]), name="inference_batches_kind_known"
            ),
        ),
        migrations.RunPython(migrations.RunPython.noop, name_former_kinds),
    ]
