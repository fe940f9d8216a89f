"""The fields that OpenAI's batches have in addition to a batch, and the hand-over of batches to members of pools."""

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import CheckConstraint, Index, Q

from inference.batches.models import Batch
from shared.accounts.models import User


class FileBatchQuerySet(models.QuerySet["FileBatch"]):
    """Queries of OpenAI's batches."""

    def for_user(self, user: User) -> "FileBatchQuerySet":
        """Return the user's own, newest first, each with its job."""
        return self.filter(user=user).select_related("job").order_by("-pk")

    def without_output_files(self, now: datetime) -> "FileBatchQuerySet":
        """Return those whose job has ended, and whose files are neither written nor being written."""
        is_free = Q(write_lease_expires_at=None) | Q(write_lease_expires_at__lte=now)
        return self.filter(is_free, finished_at=None, job__ended_at__isnull=False).order_by("pk")


class FileBatch(models.Model):
    """A batch created from an input file.

    job: the batch that executes the requests; null if the input file is invalid, and `errors` lists why.
    output_ttl_seconds: retention of the output files, if the client set one. write_lease_expires_at: end of the lease
    of the worker that writes the files. finished_at: when the files were written, or the input file was refused.
    """

    batch_id = models.CharField(max_length=32, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    job = models.OneToOneField(Batch, on_delete=models.CASCADE, null=True, related_name="file_batch")
    endpoint = models.CharField(max_length=40)
    input_file_id = models.CharField(max_length=40)
    metadata = models.JSONField(null=True)
    output_ttl_seconds = models.PositiveIntegerField(null=True, db_column="output_kept_s")
    errors = models.JSONField(default=list)
    output_file_id = models.CharField(max_length=40, blank=True)
    error_file_id = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField()
    write_lease_expires_at = models.DateTimeField(null=True, db_column="finishing_until")
    finished_at = models.DateTimeField(null=True)

    objects: ClassVar[FileBatchQuerySet] = FileBatchQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = "OpenAI batch"
        verbose_name_plural = "OpenAI batches"
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


class Handover(models.Model):
    """The hand-over of a batch to a member of its model's pool; see `inference.openai_batches.handover`.

    job: null once the batch was deleted; what is left at the member is then cancelled and deleted. member: its name in
    the pool, once it is chosen. answered_at: when the member answered last. due_at: when the next step is due.
    lease_expires_at: end of the lease of the worker that does it. error: why the batch was given back.
    """

    class State(models.TextChoices):
        SENDING = "sending"
        RUNNING = "running"
        CANCELLING = "cancelling"
        ENDED = "ended"

    job = models.OneToOneField(Batch, on_delete=models.SET_NULL, null=True, related_name="handover")
    batch_id = models.CharField(max_length=32)
    model_id = models.CharField(max_length=255)
    state = models.CharField(max_length=10, choices=State, default=State.SENDING)
    member = models.CharField(max_length=60, blank=True)
    remote_file_id = models.CharField(max_length=255, blank=True)
    remote_batch_id = models.CharField(max_length=255, blank=True)
    error = models.CharField(max_length=500, blank=True)
    due_at = models.DateTimeField()
    answered_at = models.DateTimeField()
    lease_expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [Index(fields=["due_at"], name="inference_handovers_open", condition=~Q(state="ended"))]
        constraints = [
            CheckConstraint(
                condition=Q(state__in=["sending", "running", "cancelling", "ended"]),
                name="inference_handovers_state_known",
            ),
        ]

    def __str__(self) -> str:
        return self.batch_id
