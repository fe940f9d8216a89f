"""Stored streams and their events, in segments of consecutive events."""

from django.db import models
from django.db.models import Q

from shared.accounts.models import User


class StoredStream(models.Model):
    """A stream of events, numbered from 0.

    owner: the run that writes it, until `lease_expires_at` unless it renews; null while nobody does. key, fingerprint:
    digests of an Idempotency-Key's scope and of its request; null and "" for a stream without one.
    """

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", db_index=False)
    key = models.CharField(max_length=64, null=True, blank=True, unique=True)
    fingerprint = models.CharField(max_length=64, blank=True)
    owner = models.UUIDField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["user"], name="inference_streams_of_user"),
            models.Index(fields=["ended_at"], name="inference_streams_ended"),
            models.Index(fields=["created_at"], name="inference_streams_open", condition=Q(ended_at=None)),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(owner=None, lease_expires_at=None) | Q(owner__isnull=False, lease_expires_at__isnull=False),
                name="inference_streams_owner_has_lease",
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None) | Q(owner=None), name="inference_streams_no_owner_after_end"
            ),
        ]

    def __str__(self) -> str:
        return f"stream {self.pk}"


class StreamSegment(models.Model):
    """Consecutive events of a stream, as the bytes that are sent: events `first` to `last`."""

    stream = models.ForeignKey(StoredStream, on_delete=models.DO_NOTHING, related_name="segments", db_index=False)
    first = models.PositiveIntegerField()
    last = models.PositiveIntegerField()
    frames = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["stream", "last"], name="inference_streams_last_once"),
            models.UniqueConstraint(fields=["stream", "first"], name="inference_streams_first_once"),
            models.CheckConstraint(condition=Q(last__gte=models.F("first")), name="inference_streams_segment_ordered"),
        ]

    def __str__(self) -> str:
        return f"{self.stream_id} {self.first}-{self.last}"
