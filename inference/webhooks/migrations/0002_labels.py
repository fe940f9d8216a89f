import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Change labels of choices and a related name: the database stays as it is."""

    dependencies = [("inference_webhooks", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    "attempt",
                    "delivery",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempt_log",
                        to="inference_webhooks.delivery",
                    ),
                ),
                migrations.AlterField(
                    "attempt",
                    "failure",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("address_refused", "The address is not public"),
                            ("name_unknown", "Name lookup failed"),
                            ("not_connected", "Connection failed"),
                            ("tls", "TLS failed: invalid certificate or protocol"),
                            ("timed_out", "Timed out"),
                            ("broken_answer", "Connection lost or invalid response"),
                            ("too_large", "Response too large"),
                            ("redirected", "Redirect (not followed)"),
                            ("status", "Unsuccessful status"),
                            ("secret_lost", "Secret cannot be decrypted: rotate it"),
                            ("internal", "Internal error"),
                        ],
                        max_length=24,
                    ),
                ),
                migrations.AlterField(
                    "delivery",
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("sending", "Sending"),
                            ("delivered", "Delivered"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                migrations.AlterField(
                    "endpoint",
                    "disabled_by",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("owner", "Owner"),
                            ("receiver", "Receiver (410 Gone)"),
                            ("operator", "Operator"),
                        ],
                        max_length=16,
                    ),
                ),
            ]
        )
    ]
