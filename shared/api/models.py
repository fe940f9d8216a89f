"""What the API keeps about requests: the answers that a repeated key is given again."""

from django.conf import settings
from django.db import models


class KeyedRequest(models.Model):
    """A request that came with an Idempotency-Key, and its answer once there is one."""

    scope = models.CharField(max_length=64, unique=True)  # SHA-256 of who asked, method, path and key
    fingerprint = models.CharField(max_length=64)  # of what was sent, keyed
    owner = models.UUIDField()  # the run that may write the answer; another run that takes over has another
    claimed_at = models.DateTimeField()
    created_at = models.DateTimeField(db_index=True)
    status = models.PositiveSmallIntegerField(null=True)  # null: it runs
    content_type = models.CharField(max_length=255)
    body = models.BinaryField()
    # For whom the answer is kept; null: it is one of a few bytes.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, db_index=False, related_name="+"
    )
    size = models.PositiveIntegerField(default=0, db_default=0)  # of the body

    class Meta:
        indexes = [models.Index(fields=["user", "created_at", "size"], name="api_keyed_of_user")]

    def __str__(self) -> str:
        return f"{self.scope[:8]} {self.status or 'running'}"
