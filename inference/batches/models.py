"""Batches, their requests and results, and the leases of workers. These rows are the queue, not the broker."""

import secrets
import uuid
from typing import ClassVar

from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from shared.accounts.models import ApiKey, User


def new_batch_id() -> str:
    """Return a new public batch id."""
    return f"batch_{secrets.token_hex(12)}"


class BatchQuerySet(models.QuerySet["Batch"]):
    """Queries of batches."""

    def for_user(self, user: User) -> "BatchQuerySet":
        """Return the user's own batches, newest first."""
        return self.filter(user=user).order_by("-pk")


class AcceptedBatchManager(models.Manager["Batch"]):
    """Manager without the batches whose requests are still being written."""

    def get_queryset(self) -> BatchQuerySet:
        return BatchQuerySet(self.model, using=self._db).filter(accept_before=None)


class Batch(models.Model):
    """A job of many requests for one model.

    `dispatch` decides from `sent_at`, `resume_at` and the leases whether the batch needs a message to a worker.

    kind: the API form of the requests and of their answers. parameters: defaults of all requests of a native batch.
    api_key: the key that created the batch, and whose monthly quota it counts against. backoff_count: consecutive times
    that the model was unavailable. accept_before: while its requests are written, the time at which their writer counts
    as killed; such a batch is only in `all_objects`.
    """

    class Kind(models.TextChoices):
        NATIVE = "native"
        CHAT = "chat"
        COMPLETION = "completion"
        EMBEDDING = "embedding"
        RESPONSE = "response"
        MESSAGE = "message"

    class Status(models.TextChoices):
        PROCESSING = "processing"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"
        EXPIRED = "expired"

    batch_id = models.CharField(max_length=32, unique=True, default=new_batch_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    api_key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    kind = models.CharField(max_length=16, choices=Kind)
    model_id = models.CharField(max_length=255)
    parameters = models.JSONField(default=dict, blank=True)
    status = models.CharField(max_length=16, choices=Status, default=Status.PROCESSING)
    size = models.PositiveBigIntegerField(default=0)  # approximate bytes of its requests and results
    reserved_tokens = models.PositiveBigIntegerField(default=0)  # estimate, prompt and output of all its requests
    total = models.PositiveIntegerField(default=0)
    completed = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    webhook_url = models.TextField(blank=True)  # notified of the end, in addition to the user's endpoints
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)  # time of the pending message; null: none is pending
    resume_at = models.DateTimeField()  # earliest time of the next message
    backoff_count = models.PositiveSmallIntegerField(default=0, db_column="setbacks")
    accept_before = models.DateTimeField(null=True, blank=True, editable=False)

    objects: ClassVar[BatchQuerySet] = AcceptedBatchManager.from_queryset(BatchQuerySet)()  # type: ignore[assignment]
    all_objects: ClassVar[BatchQuerySet] = BatchQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "batches"
        indexes = [
            Index(fields=["user", "-id"], name="inference_batches_of_user"),
            Index(fields=["resume_at"], name="inference_batches_open", condition=Q(ended_at=None)),
            Index(fields=["ended_at"], name="inference_batches_ended"),
            Index(
                fields=["accept_before"],
                name="inference_batches_unaccepted",
                condition=Q(accept_before__isnull=False),
            ),
        ]
        constraints = [
            CheckConstraint(
                condition=Q(status__in=["processing", "completed", "failed", "cancelled", "expired"]),
                name="inference_batches_status_known",
            ),
            CheckConstraint(
                condition=Q(kind__in=["native", "chat", "completion", "embedding", "response", "message"]),
                name="inference_batches_kind_known",
            ),
            CheckConstraint(
                condition=Q(total__gte=F("completed") + F("failed")), name="inference_batches_counts_within_total"
            ),
            CheckConstraint(
                condition=Q(status="processing", ended_at=None) | (~Q(status="processing") & Q(ended_at__isnull=False)),
                name="inference_batches_ended_or_processing",
            ),
            CheckConstraint(
                condition=~Q(status__in=["completed", "failed", "expired"]) | Q(total=F("completed") + F("failed")),
                name="inference_batches_ended_whole",
            ),
        ]

    def __str__(self) -> str:
        return self.batch_id


class Lease(models.Model):
    """A worker's claim to requests of a batch, valid until `expires_at` unless the worker renews it.

    worker: the process that claims requests under this lease; "" once it only finishes the requests it has.
    isolated_model: the model for which this worker runs one request alone after a crash; unique over all leases.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="leases")
    worker = models.CharField(max_length=255, blank=True)
    expires_at = models.DateTimeField(db_index=True, db_column="until")
    isolated_model = models.CharField(max_length=255, null=True, blank=True, unique=True, db_column="lonely_model")

    def __str__(self) -> str:
        return f"{self.batch_id} {self.worker}"


class BatchRequest(models.Model):
    """One request of a batch.

    body: its JSON as received; native batches have `id` in it. attempts: starts, without those that a worker handed
    back. is_isolated: it was running during a crash, so it now runs alone; the next crash is then its own.
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    # `services.delete_batch` deletes in bulk: a cascade of Django's would read every row.
    batch = models.ForeignKey(Batch, on_delete=models.DO_NOTHING, related_name="requests", db_index=False)
    index = models.PositiveIntegerField()
    custom_id = models.CharField(max_length=256)
    body = models.TextField()
    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    is_isolated = models.BooleanField(default=False, db_column="is_lonely")
    lease = models.ForeignKey(
        Lease, on_delete=models.DO_NOTHING, null=True, blank=True, db_index=False, related_name="+"
    )

    class Meta:
        verbose_name = "request"
        indexes = [
            Index(
                fields=["batch", "is_isolated", "index"],
                name="inference_batches_pending",
                condition=Q(status="pending"),
            ),
            Index(fields=["lease"], name="inference_batches_leased", condition=Q(lease__isnull=False)),
            Index(fields=["batch", "index"], name="inference_batches_failed", condition=Q(status="failed")),
        ]
        constraints = [
            UniqueConstraint(fields=["batch", "index"], name="inference_batches_index_once"),
            UniqueConstraint(fields=["batch", "custom_id"], name="inference_batches_id_once"),
            CheckConstraint(
                condition=Q(status__in=["pending", "running", "completed", "failed", "cancelled"]),
                name="inference_batches_request_status_known",
            ),
            CheckConstraint(
                condition=Q(status="running", lease__isnull=False) | (~Q(status="running") & Q(lease=None)),
                name="inference_batches_leased_or_not_running",
            ),
        ]

    def __str__(self) -> str:
        return self.custom_id


class BatchResult(models.Model):
    """The result of a request, written once: its primary key is the request's.

    answer: JSON in the form of the batch's kind; "" if the request failed.
    """

    request = models.OneToOneField(BatchRequest, on_delete=models.DO_NOTHING, primary_key=True, related_name="result")
    answer = models.TextField(blank=True)
    error_code = models.CharField(max_length=64, blank=True)
    error_message = models.TextField(blank=True)
    processing_time_ms = models.PositiveIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=(Q(answer="") & ~Q(error_code="")) | (~Q(answer="") & Q(error_code="")),
                name="inference_batches_answer_or_error",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} {self.error_code or 'completed'}"


class Sweeper(models.Model):
    """The lease of the one worker that sweeps; the table has one row."""

    name = models.CharField(max_length=32, primary_key=True)
    owner = models.UUIDField()
    expires_at = models.DateTimeField(db_column="until")

    def __str__(self) -> str:
        return f"{self.owner} until {self.expires_at}"
