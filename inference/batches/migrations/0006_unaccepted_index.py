from django.db import migrations, models

from shared.migration_operations import AddIndexBesideWrites


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("inference_batches", "0005_accept_before")]

    operations = [
        AddIndexBesideWrites(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("accept_before__isnull", False)),
                fields=["accept_before"],
                name="inference_batches_unaccepted",
            ),
        ),
    ]
