"""What OpenAI's form of a batch says beyond its job."""

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import CheckConstraint, Index, Q

from inference.batches.models import Batch
from shared.accounts.models import User


class FileBatchQuerySet(models.QuerySet["FileBatch"]):
    """Reads."""

    def for_user(self, user: User) -> "FileBatchQuerySet":
        """Their own, newest first, each with its job."""
        return self.filter(user=user).select_related("job").order_by("-pk")

    def to_finish(self, now: datetime) -> "FileBatchQuerySet":
        """Those whose job has ended, and whose files are not written yet, nor being written."""
        is_free = Q(finishing_until=None) | Q(finishing_until__lte=now)
        return self.filter(is_free, finished_at=None, job__ended_at__isnull=False).order_by("pk")


class FileBatch(models.Model):
    """A batch made of a file. job: what is run; none where the file was wrong, and `errors` says how.

    output_kept_s: how long its owner wants what it writes, where they said so. finishing_until: so long somebody else
    is writing its output and error file. finished_at: since then they are there.
    """

    batch_id = models.CharField(max_length=32, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    job = models.OneToOneField(Batch, on_delete=models.CASCADE, null=True, related_name="file_batch")
    endpoint = models.CharField(max_length=40)
    input_file_id = models.CharField(max_length=40)
    metadata = models.JSONField(null=True)
    output_kept_s = models.PositiveIntegerField(null=True)
    errors = models.JSONField(default=list)
    output_file_id = models.CharField(max_length=40, blank=True)
    error_file_id = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField()
    finishing_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects: ClassVar[FileBatchQuerySet] = FileBatchQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = "batch of a file"
        verbose_name_plural = "batches of files"
        indexes = [
            Index(fields=["user", "-id"], name="inference_file_batches_user"),
            Index(fields=["id"], name="inference_file_batches_open", condition=Q(finished_at=None)),
        ]
        constraints = [
            CheckConstraint(
                condition=Q(job__isnull=False) | Q(finished_at__isnull=False),
                name="inference_file_batches_job_or_finished",
            ),
        ]

    def __str__(self) -> str:
        return self.batch_id
