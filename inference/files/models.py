"""Files: a row each, and its content in the storage under a name of ours."""

from typing import Self

from django.db import models
from django.db.models import Q

from shared.accounts.models import User


class FileQuerySet(models.QuerySet["StoredFile"]):
    def for_user(self, user: User) -> Self:
        """What this user may see: their own, while it is there."""
        return self.filter(owner=user, status=StoredFile.Status.STORED)


class StoredFile(models.Model):
    """One file. Its row is there before its content is, and goes after it, so that no content is ever nobody's.

    expires_at: when the sweeper moves it on. An upload that did not end and a file whose time is up become deleted;
    what is deleted goes, content and row.
    """

    class Status(models.TextChoices):
        STORING = "storing"
        STORED = "stored"
        DELETED = "deleted"  # for a while, so that who deletes page by page finds the next page

    class Purpose(models.TextChoices):
        BATCH = "batch"
        BATCH_OUTPUT = "batch_output"

    file_id = models.CharField(max_length=40, unique=True, editable=False)
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    purpose = models.CharField(max_length=20, choices=Purpose)
    name = models.CharField(max_length=255, help_text="As its owner knows it; nothing is stored under it.")
    size = models.PositiveBigIntegerField(help_text="In bytes.")
    status = models.CharField(max_length=10, choices=Status, default=Status.STORING)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

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
        """Where its content lies in the storage."""
        return f"files/{self.file_id}"
