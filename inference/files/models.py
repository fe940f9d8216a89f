"""Rows of files and of uploads. The content is in the storage, under a generated name."""

from typing import Self

from django.db import models
from django.db.models import Q

from shared.accounts.models import User


class FileQuerySet(models.QuerySet["StoredFile"]):
    """Queries of files."""

    def for_user(self, user: User) -> Self:
        """Return the user's own files that are stored."""
        return self.filter(owner=user, status=StoredFile.Status.STORED)


class Upload(models.Model):
    """A file that comes in parts. They become the file when the upload is completed.

    size: bytes of the file, as announced; they count as stored from the beginning.
    retention_seconds: how long the file is kept, or None for the setting.
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        COMPLETED = "completed"
        CANCELLED = "cancelled"

    upload_id = models.CharField(max_length=40, unique=True, editable=False)
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=255)
    size = models.PositiveBigIntegerField()
    retention_seconds = models.PositiveIntegerField(null=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    file_id = models.CharField(max_length=40, blank=True, help_text="Id of the file, once the upload is completed.")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.upload_id


class StoredFile(models.Model):
    """A file, or a part of an upload, which stays invisible.

    Its row is created before its content and deleted after it, so that no content is without a row.

    expires_at: when the sweeper acts on it. Interrupted uploads and expired files become deleted; of deleted files the
    sweeper removes content and row.
    """

    class Status(models.TextChoices):
        STORING = "storing"
        STORED = "stored"
        DELETED = "deleted"  # kept for a while: it may be the `after` of the next page

    class Purpose(models.TextChoices):
        BATCH = "batch"
        BATCH_OUTPUT = "batch_output"

    file_id = models.CharField(max_length=40, unique=True, editable=False)
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    purpose = models.CharField(max_length=20, choices=Purpose)
    name = models.CharField(
        max_length=255, help_text="The name given by the owner. The content is stored under another one."
    )
    size = models.PositiveBigIntegerField(help_text="Size in bytes.")
    status = models.CharField(max_length=10, choices=Status, default=Status.STORING)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    upload = models.ForeignKey(
        Upload, null=True, on_delete=models.PROTECT, related_name="parts", help_text="The upload of a part."
    )

    objects = FileQuerySet.as_manager()

    class Meta:
        verbose_name = "file"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["owner", "-id"], name="inference_files_of_owner"),
            models.Index(fields=["status", "expires_at"], name="inference_files_due"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["storing", "stored", "deleted"]), name="inference_files_status_known"
            ),
            models.CheckConstraint(
                condition=Q(purpose__in=["batch", "batch_output"]), name="inference_files_purpose_known"
            ),
        ]

    def __str__(self) -> str:
        return self.file_id

    @property
    def path(self) -> str:
        """Return the content's name in the storage."""
        return f"files/{self.file_id}"
