"""Models of drafts, quota usage and bulk jobs."""

import hashlib
import uuid
from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from commerce.catalog.models import Product
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role


def description_digest(description: str) -> str:
    """Return the SHA-256 digest by which a changed description is detected."""
    return hashlib.sha256(description.encode()).hexdigest()


class DraftQuerySet(models.QuerySet["DescriptionDraft"]):
    def managed_by(self, user: User) -> Self:
        """Return the drafts for products that this user may change."""
        return self.filter(product__in=Product.objects.managed_by(user))

    def open(self) -> Self:
        """Return the drafts that are neither accepted nor discarded."""
        return self.filter(state=DescriptionDraft.State.OPEN)


class DescriptionDraft(models.Model):
    """A text for one product, with the request that it was written for.

    `written` is the model's text, `text` the edited one. Only accepting a draft changes the product. Accepted and
    discarded drafts are kept as the product's history.
    """

    class State(models.TextChoices):
        OPEN = "open", _("Open")
        ACCEPTED = "accepted", _("Accepted")
        DISCARDED = "discarded", _("Discarded")

    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, related_name="description_drafts", verbose_name=_("product")
    )
    author = models.ForeignKey(
        User,
        on_delete=models.PROTECT,
        related_name="description_drafts",
        verbose_name=_("author"),
        help_text=_("The user who requested the draft."),
    )
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.OPEN)
    text = models.TextField(_("text"))
    written = models.TextField(_("generated text"), editable=False)
    is_fallback = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="No text of the model kept to the given facts, so this one only states them.",
    )
    based_on = models.CharField(
        max_length=64, editable=False, help_text="Digest of the product's description when the draft was requested."
    )
    model = models.CharField(_("model"), max_length=255, help_text=_("The model that wrote the draft."))
    tone = models.CharField(_("tone"), max_length=32, blank=True)
    language = models.CharField(_("language"), max_length=16, default="en")
    keywords = models.JSONField(_("keywords"), default=list, blank=True)
    max_words = models.PositiveSmallIntegerField(_("maximum words"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"))
    edited_at = models.DateTimeField(_("edited at"), null=True, blank=True)
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    decided_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("decided by")
    )

    objects = DraftQuerySet.as_manager()

    class Meta:
        verbose_name = _("description draft")
        verbose_name_plural = _("description drafts")
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["open", "accepted", "discarded"]), name="commerce_description_draft_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="open", decided_at__isnull=True, decided_by__isnull=True)
                | (~Q(state="open") & Q(decided_at__isnull=False, decided_by__isnull=False)),
                name="commerce_description_draft_decided_by_somebody",
            ),
            models.CheckConstraint(condition=~Q(text=""), name="commerce_description_draft_has_text"),
        ]
        indexes = [
            models.Index(fields=["product", "-created_at", "-id"], name="commerce_draft_of_product"),
            models.Index(fields=["state", "-created_at", "-id"], name="commerce_draft_by_state"),
            models.Index(fields=["-created_at", "-id"], name="commerce_draft_newest"),
        ]

    def __str__(self) -> str:
        return f"Draft {self.pk} for {self.product}"

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def is_outdated(self) -> bool:
        """Whether the product's description has changed since the draft was requested."""
        return description_digest(self.product.description) != self.based_on


class QuotaUsage(models.Model):
    """Number of descriptions requested on one day by a shop, or by a user without a shop."""

    day = models.DateField(help_text="Day in UTC.")
    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, null=True, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    used = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "commerce_descriptions_allowance"
        ordering = ["-day", "id"]
        constraints = [
            # A unique constraint ignores rows with a null, so shops and users need one each.
            models.UniqueConstraint(fields=["shop", "day"], name="commerce_allowance_one_a_shop_and_day"),
            models.UniqueConstraint(fields=["user", "day"], name="commerce_allowance_one_a_user_and_day"),
            models.CheckConstraint(
                condition=Q(shop__isnull=False, user__isnull=True) | Q(shop__isnull=True, user__isnull=False),
                name="commerce_allowance_of_a_shop_or_a_user",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.used} on {self.day}"


class JobQuerySet(models.QuerySet["DescriptionJob"]):
    def for_user(self, user: User) -> Self:
        """Return the jobs that this user created, or all for a super admin."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.filter(author=user)

    def due(self, now: datetime) -> Self:
        """Return the open jobs whose next check is due."""
        return self.filter(ended_at=None, next_check_at__lte=now)


class DescriptionJob(models.Model):
    """Descriptions for many products, written by the model server as one batch (`batch_id`).

    A worker that processes a job moves `next_check_at` into the future, which keeps other workers away. After a crash
    the job becomes due at that time.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        RUNNING = "running", _("Running")
        COMPLETED = "completed", _("Completed")
        CANCELLED = "cancelled", _("Cancelled")
        FAILED = "failed", _("Failed")

    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", verbose_name=_("author"))
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.WAITING)
    tone = models.CharField(max_length=32, blank=True)
    language = models.CharField(max_length=16, blank=True, help_text="Empty for each product's own language.")
    keywords = models.JSONField(default=list, blank=True)
    max_words = models.PositiveSmallIntegerField(null=True, blank=True)
    model = models.CharField(max_length=255)
    total = models.PositiveIntegerField()
    written = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=255, blank=True, help_text="Reason why the whole job failed.")
    key = models.UUIDField(default=uuid.uuid4, editable=False, help_text="Namespace of the batch's idempotency key.")
    batch_id = models.CharField(max_length=64, blank=True, db_index=True)
    created_at = models.DateTimeField(_("created at"))
    cancelled_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(_("ended at"), null=True, blank=True)
    next_check_at = models.DateTimeField(db_column="look_at")
    failure_count = models.PositiveIntegerField(
        default=0, db_column="setbacks", help_text="Consecutive calls that the model server did not answer."
    )

    objects = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("description job")
        verbose_name_plural = _("description jobs")
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "running", "completed", "cancelled", "failed"]),
                name="commerce_description_job_state_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "running"], ended_at__isnull=True)
                | Q(state__in=["completed", "cancelled", "failed"], ended_at__isnull=False),
                name="commerce_description_job_ended_or_not",
            ),
            models.CheckConstraint(
                condition=Q(total__gte=F("written") + F("failed")), name="commerce_description_job_counts_within_total"
            ),
            models.CheckConstraint(
                condition=~Q(state="completed") | Q(total=F("written") + F("failed")),
                name="commerce_description_job_completed_whole",
            ),
        ]
        indexes = [
            models.Index(fields=["next_check_at"], name="commerce_description_jobs_open", condition=Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"Job {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    @property
    def progress(self) -> int:
        """Number of finished products, or of written drafts once the job has ended."""
        return self.written + self.failed if self.is_open else self.written


class JobItem(models.Model):
    """One product of a job. `position` is its id in the batch, and `quota_usage` the row that it is charged to."""

    class State(models.TextChoices):
        WAITING = "waiting"
        WRITTEN = "written"
        FAILED = "failed"
        CANCELLED = "cancelled"

    job = models.ForeignKey(DescriptionJob, on_delete=models.CASCADE, related_name="items", db_index=False)
    position = models.PositiveIntegerField(db_column="place")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+")
    quota_usage = models.ForeignKey(
        QuotaUsage, on_delete=models.CASCADE, related_name="+", db_index=False, db_column="allowance_id"
    )
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    based_on = models.CharField(max_length=64, editable=False, help_text="Value of `based_on` for the draft.")
    draft = models.OneToOneField(DescriptionDraft, on_delete=models.CASCADE, null=True, blank=True, related_name="item")
    error = models.CharField(max_length=64, blank=True, help_text="Error code of the model server or of processing.")

    class Meta:
        ordering = ["job", "position"]
        constraints = [
            models.UniqueConstraint(fields=["job", "position"], name="commerce_description_item_place_once"),
            models.UniqueConstraint(fields=["job", "product"], name="commerce_description_item_product_once"),
            models.CheckConstraint(
                condition=Q(state="written", draft__isnull=False)
                | Q(state__in=["waiting", "failed", "cancelled"], draft__isnull=True),
                name="commerce_description_item_written_or_not",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.position} of {self.job_id}"


class ServerCooldown(models.Model):
    """State of the circuit breaker that all workers share for the model server's batches, in one row.

    `probe_until` is set while one worker probes the server for all others.
    """

    ROW_ID = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ROW_ID, editable=False)
    failure_count = models.PositiveIntegerField(default=0, db_column="times")
    cooldown_until = models.DateTimeField(null=True, db_column="rests_until")
    probe_until = models.DateTimeField(null=True, db_column="asked_until")

    class Meta:
        db_table = "commerce_descriptions_serversilence"
        constraints = [models.CheckConstraint(condition=Q(id=1), name="commerce_description_silence_one_row")]

    def __str__(self) -> str:
        return f"{self.failure_count} failures"
