"""Drafts, which a model wrote and people use or leave; how many a shop may ask for in a day; and jobs of many."""

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


def version_of(description: str) -> str:
    """By which a product's description is known to be the one that it was."""
    return hashlib.sha256(description.encode()).hexdigest()


class DraftQuerySet(models.QuerySet["DescriptionDraft"]):
    def managed_by(self, user: User) -> Self:
        """The drafts for products that this user may change."""
        return self.filter(product__in=Product.objects.managed_by(user))

    def open(self) -> Self:
        """Those that nobody has decided about."""
        return self.filter(state=DescriptionDraft.State.OPEN)


class DescriptionDraft(models.Model):
    """One text for one product, with what was asked for. `written` is the model's, `text` what people made of it. The
    product is changed by accepting it alone. What was accepted or discarded stays, as the product's history."""

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
        help_text=_("Who asked for it."),
    )
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.OPEN)
    text = models.TextField(_("text"))
    written = models.TextField(_("written"), editable=False)
    based_on = models.CharField(
        max_length=64,
        editable=False,
        help_text="The `version_of` the description that the product had when this was asked for.",
    )
    model = models.CharField(_("model"), max_length=255, help_text=_("The model that wrote it."))
    tone = models.CharField(_("tone"), max_length=32, blank=True)
    language = models.CharField(_("language"), max_length=16, default="en")
    keywords = models.JSONField(_("keywords"), default=list, blank=True)
    max_words = models.PositiveSmallIntegerField(_("max words"), null=True, blank=True)
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
        ]

    def __str__(self) -> str:
        return f"Draft {self.pk} for {self.product}"

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def is_outdated(self) -> bool:
        """The product got another description after this was asked for."""
        return version_of(self.product.description) != self.based_on


class Allowance(models.Model):
    """How many descriptions were asked for on one day: of a shop, or by somebody who has none."""

    day = models.DateField(help_text="In UTC.")
    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, null=True, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")
    used = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-day", "id"]
        constraints = [
            # Of rows with a null in it a constraint lets any number be: each of these two is about its own kind.
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
        """The jobs that this user has asked for; a super admin's are all."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.filter(author=user)

    def due(self, now: datetime) -> Self:
        """Those that somebody has to look after."""
        return self.filter(ended_at=None, look_at__lte=now)


class DescriptionJob(models.Model):
    """Descriptions for many products, written by the model server as one batch (`batch_id`). Whoever looks after it
    puts `look_at` off, so that nobody else does meanwhile; what a crash leaves is looked after from then on."""

    class State(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        RUNNING = "running", _("Running")
        COMPLETED = "completed", _("Completed")
        CANCELLED = "cancelled", _("Cancelled")
        FAILED = "failed", _("Failed")

    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", verbose_name=_("author"))
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.WAITING)
    tone = models.CharField(max_length=32, blank=True)
    language = models.CharField(max_length=16, blank=True, help_text="Empty: each product's own.")
    keywords = models.JSONField(default=list, blank=True)
    max_words = models.PositiveSmallIntegerField(null=True, blank=True)
    model = models.CharField(max_length=255)
    total = models.PositiveIntegerField()
    written = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=255, blank=True, help_text="Why it failed as a whole.")
    key = models.UUIDField(default=uuid.uuid4, editable=False, help_text="Sent again, it is the same batch.")
    batch_id = models.CharField(max_length=64, blank=True, db_index=True)
    created_at = models.DateTimeField(_("created at"))
    cancelled_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(_("ended at"), null=True, blank=True)
    look_at = models.DateTimeField()
    setbacks = models.PositiveIntegerField(default=0, help_text="How often in a row the model server did not answer.")

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
            models.Index(fields=["look_at"], name="commerce_description_jobs_open", condition=Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"Job {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.ended_at is None

    @property
    def progress(self) -> int:
        """Of how many it is known what became of them; once it has ended, of how many there is a draft."""
        return self.written + self.failed if self.is_open else self.written


class JobItem(models.Model):
    """One product of a job. `place` is its id in the batch; `allowance` is where it counts until it fails."""

    class State(models.TextChoices):
        WAITING = "waiting"
        WRITTEN = "written"
        FAILED = "failed"
        CANCELLED = "cancelled"

    job = models.ForeignKey(DescriptionJob, on_delete=models.CASCADE, related_name="items", db_index=False)
    place = models.PositiveIntegerField()
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="+")
    allowance = models.ForeignKey(Allowance, on_delete=models.CASCADE, related_name="+", db_index=False)
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    based_on = models.CharField(max_length=64, editable=False, help_text="As its draft will have it.")
    draft = models.OneToOneField(DescriptionDraft, on_delete=models.CASCADE, null=True, blank=True, related_name="item")
    error = models.CharField(max_length=64, blank=True, help_text="The model server's code for what went wrong.")

    class Meta:
        ordering = ["job", "place"]
        constraints = [
            models.UniqueConstraint(fields=["job", "place"], name="commerce_description_item_place_once"),
            models.UniqueConstraint(fields=["job", "product"], name="commerce_description_item_product_once"),
            models.CheckConstraint(
                condition=Q(state="written", draft__isnull=False)
                | Q(state__in=["waiting", "failed", "cancelled"], draft__isnull=True),
                name="commerce_description_item_written_or_not",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.place} of {self.job_id}"


class ServerSilence(models.Model):
    """How often in a row the model server did not answer at all, until when it is left alone, and until when somebody
    asks it for all others. One row."""

    ROW = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ROW, editable=False)
    times = models.PositiveIntegerField(default=0)
    rests_until = models.DateTimeField(null=True)
    asked_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="commerce_description_silence_one_row")]

    def __str__(self) -> str:
        return f"{self.times} times"
