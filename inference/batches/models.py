"""The queue of record. What a broker or a worker forgets is still written here, and done."""

import secrets
import uuid
from typing import ClassVar

from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from shared.accounts.models import ApiKey, User


def new_batch_id() -> str:
    """The id that clients know."""
    return f"batch_{secrets.token_hex(12)}"


class BatchQuerySet(models.QuerySet["Batch"]):
    """Reads."""

    def for_user(self, user: User) -> "BatchQuerySet":
        """Their own, newest first."""
        return self.filter(user=user).order_by("-pk")


class Batch(models.Model):
    """A job. `sent_at`, `resume_at` and the leases say whether a worker has to be sent for it: see `dispatch`.

    kind: what its requests are, and in whose form they are answered. parameters: what all requests of a native one
    share. api_key: with which it was made, and whose month it counts for too. setbacks: how often in a row its model
    could not be asked.
    """

    class Kind(models.TextChoices):
        NATIVE = "native"
        CHAT = "chat"
        COMPLETION = "completion"
        EMBEDDING = "embedding"

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
    size = models.PositiveBigIntegerField(default=0)  # bytes that its requests and results take, about
    reserved_tokens = models.PositiveBigIntegerField(default=0)  # what its requests may take together, about
    total = models.PositiveIntegerField(default=0)
    completed = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    webhook_url = models.TextField(blank=True)  # told once of the end, beside the user's endpoints
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)  # a message for it is on its way since then; null: none is
    resume_at = models.DateTimeField()  # nobody is sent before
    setbacks = models.PositiveSmallIntegerField(default=0)

    objects: ClassVar[BatchQuerySet] = BatchQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "batches"
        indexes = [
            Index(fields=["user", "-id"], name="inference_batches_of_user"),
            Index(fields=["resume_at"], name="inference_batches_open", condition=Q(ended_at=None)),
            Index(fields=["ended_at"], name="inference_batches_ended"),
        ]
        constraints = [
            CheckConstraint(
                condition=Q(status__in=["processing", "completed", "failed", "cancelled", "expired"]),
                name="inference_batches_status_known",
            ),
            CheckConstraint(
                condition=Q(kind__in=["native", "chat", "completion", "embedding"]), name="inference_batches_kind_known"
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
    """A worker's right to some requests of a batch, for as long as it says again and again that it lives.

    worker: the process that claims requests with it; "" once it only finishes those that it has. lonely_model: the
    model that it asks for one request at a time, after a crash; nobody else does so of the same model meanwhile.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="leases")
    worker = models.CharField(max_length=255, blank=True)
    until = models.DateTimeField(db_index=True)
    lonely_model = models.CharField(max_length=255, null=True, blank=True, unique=True)

    def __str__(self) -> str:
        return f"{self.batch_id} {self.worker}"


class BatchRequest(models.Model):
    """One request of a batch. body: its JSON as it came, with `id` in it where the batch is native.

    attempts: how often it was begun without an end of its own or the worker's own wish. is_lonely: it was running when
    something crashed, and is run with nothing beside it, so that what crashes next is its own doing.
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"

    # Never deleted through Django's cascades, which would read every row: see `services`.
    batch = models.ForeignKey(Batch, on_delete=models.DO_NOTHING, related_name="requests", db_index=False)
    index = models.PositiveIntegerField()
    custom_id = models.CharField(max_length=256)
    body = models.TextField()
    status = models.CharField(max_length=16, choices=Status, default=Status.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    is_lonely = models.BooleanField(default=False)
    lease = models.ForeignKey(
        Lease, on_delete=models.DO_NOTHING, null=True, blank=True, db_index=False, related_name="+"
    )

    class Meta:
        verbose_name = "request"
        indexes = [
            Index(
                fields=["batch", "is_lonely", "index"],
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
    """What came of a request, written once: its key is its request's. answer: JSON in the batch's form, "" where it
    failed."""

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
        return f"{self.request_id} {self.error_code or 'answered'}"


class Sweeper(models.Model):
    """Who sweeps just now: the one row of this table."""

    name = models.CharField(max_length=32, primary_key=True)
    owner = models.UUIDField()
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.owner} until {self.until}"
