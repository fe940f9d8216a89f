from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference_batches", "0004_responses_and_messages")]

    operations = [
        migrations.AddField(
            model_name="batch",
            name="accept_before",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
