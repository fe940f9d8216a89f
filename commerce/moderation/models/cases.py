"""Cases: one row for all reports of one piece of content."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from commerce.moderation.models.reports import KIND_KNOWN, Kind
from commerce.shops.models import Shop
from shared.accounts.models import User


class CaseQuerySet(models.QuerySet["Case"]):
    def waiting(self) -> Self:
        """The queue: what a moderator is to decide."""
        return self.filter(is_waiting=True)


def _queue_index(name: str, *order: str) -> models.Index:
    """One order of the queue. What it can be filtered by stands behind, so that a filter that lets few through reads
    the index and not the table."""
    filters = ["model_type", "shop", "language", "hiding", "is_brigaded", "state"]
    rest = [] if "oldest_at" in order[0] else ["oldest_at"]
    return models.Index(fields=[*order, *rest, *filters], condition=Q(is_waiting=True), name=f"commerce_queue_{name}")


def _part_index(name: str, part: Q, *first: str) -> models.Index:
    """A part of the queue, or its ages alone, to be counted without reading all of it."""
    return models.Index(
        fields=[*first, "oldest_at"], condition=Q(is_waiting=True) & part, name=f"commerce_queue_{name}"
    )


class Case(models.Model):
    """All reports of one content, as one item of the queue. Its figures are of the open ones, and change in the same
    transaction as they do."""

    class State(models.TextChoices):
        OPEN = "open", "Open: reports wait for a decision"
        APPEALED = "appealed", "Taken down, and its author has appealed"
        ACCEPTED = "accepted", "Taken down"
        REJECTED = "rejected", "Kept"
        CLOSED = "closed", "Nothing to decide"

    class Hiding(models.TextChoices):
        NONE = "", "Visible"
        AUTOMATIC = "automatic", "Hidden on its own, until a moderator looks"
        MODERATOR = "moderator", "Hidden by a moderator for now"

    model_type = models.CharField(max_length=32, choices=Kind.choices)
    model_id = models.BigIntegerField()
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="cases")
    shop = models.ForeignKey(Shop, on_delete=models.PROTECT, related_name="+", db_index=False)
    language = models.CharField(max_length=16)
    state = models.CharField(max_length=16, choices=State.choices, default=State.CLOSED)
    is_waiting = models.BooleanField(default=False)
    hiding = models.CharField(max_length=16, choices=Hiding.choices, default=Hiding.NONE, blank=True)
    # A moderator has kept it: whatever is reported from now on, it is not hidden without one.
    is_cleared = models.BooleanField(default=False)
    reports_count = models.PositiveIntegerField(default=0)
    weight = models.PositiveBigIntegerField(default=0)  # thousandths, summed over the open reports
    trusted_count = models.PositiveIntegerField(default=0)
    is_brigaded = models.BooleanField(default=False)
    newest_at = models.DateTimeField(null=True)
    oldest_at = models.DateTimeField(null=True)
    claimed_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    claimed_until = models.DateTimeField(null=True)
    last_decision = models.ForeignKey(
        "Decision", on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )  # fmt: skip
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = CaseQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            # The id first: an index that begins with the kind would be taken for a way to filter the queue by kind.
            models.UniqueConstraint(fields=["model_id", "model_type"], name="commerce_case_one_a_content"),
            models.CheckConstraint(condition=KIND_KNOWN, name="commerce_case_kind_known"),
            models.CheckConstraint(
                condition=Q(is_waiting=True, state__in=["open", "appealed"])
                | Q(is_waiting=False, state__in=["accepted", "rejected", "closed"]),
                name="commerce_case_waiting_by_state",
            ),
            models.CheckConstraint(
                condition=Q(is_waiting=False) | Q(newest_at__isnull=False, oldest_at__isnull=False),
                name="commerce_case_waiting_has_age",
            ),
        ]
        indexes = [
            _queue_index("newest", "-newest_at", "-id"),
            _queue_index("oldest", "oldest_at", "id"),
            _queue_index("reports", "-reports_count", "-id"),
            _queue_index("weight", "-weight", "-id"),
            _part_index("age", Q()),
            _part_index("of_shop", Q(), "shop"),
            _part_index("hidden", ~Q(hiding=""), "hiding"),
            _part_index("brigaded", Q(is_brigaded=True)),
            _part_index("appealed", Q(state="appealed")),
        ]

    def __str__(self) -> str:
        return f"{self.model_type} {self.model_id}: {self.state}"

    def claimant(self, now: datetime) -> User | None:
        """The moderator who looks at it now."""
        return self.claimed_by if self.claimed_until and self.claimed_until > now else None
