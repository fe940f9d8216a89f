"""Claims find the oldest waiting response of each user by an index, which PostgreSQL makes beside reads and writes."""

from django.conf import settings
from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites, RemoveIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("accounts", "0008_sign_in_networks"),
        ("inference_responses", "0001_initial"),
        ("inference_streams", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexBesideWrites(
            model_name="storedresponse",
            index=models.Index(
                condition=models.Q(("ended_at", None)),
                fields=["user", "resume_at", "id"],
                name="inference_responses_turns",
            ),
        ),
        RemoveIndexBesideWrites(model_name="storedresponse", name="inference_responses_open"),
    ]
