"""Stored responses of requests with an Idempotency-Key."""

from django.conf import settings
from django.db import models


class KeyedRequest(models.Model):
    """Request with an Idempotency-Key, and its response once there is one."""

    scope = models.CharField(max_length=64, unique=True)  # SHA-256 of user, method, path and key
    fingerprint = models.CharField(max_length=64)  # keyed digest of the request
    owner = models.UUIDField()  # of the run that may store the response; a run that takes over has another
    claimed_at = models.DateTimeField()
    created_at = models.DateTimeField(db_index=True)
    status = models.PositiveSmallIntegerField(null=True)  # null while it runs
    content_type = models.CharField(max_length=255)
    body = models.BinaryField()
    # User whose storage limit counts the response; null for one of a few bytes.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, db_index=False, related_name="+"
    )
    size = models.PositiveIntegerField(default=0, db_default=0)  # of the response body, in bytes

    class Meta:
        indexes = [models.Index(fields=["user", "created_at", "size"], name="api_keyed_of_user")]

    def __str__(self) -> str:
        return f"{self.scope[:8]} {self.status or 'running'}"
