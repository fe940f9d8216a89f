"""Cases: one row for all reports of one piece of content."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from commerce.moderation.models.reasons import ReportReason
from commerce.moderation.models.reports import IS_KNOWN_KIND, ContentKind
from commerce.shops.models import Shop
from shared.accounts.models import User


class CaseQuerySet(models.QuerySet["Case"]):
    def waiting(self) -> Self:
        """Return the cases in the queue."""
        return self.filter(is_waiting=True)


def _queue_index(name: str, *order: str) -> models.Index:
    """Return an index for one order of the queue.

    It ends with the columns of all filters, so that a selective filter reads the index and not the table.
    """
    filters = ["model_type", "shop", "language", "hiding", "is_brigaded", "state", "reason", "severity"]
    columns = {name.removeprefix("-") for name in order}
    rest = [name for name in ("oldest_at", *filters) if name not in columns]
    return models.Index(fields=[*order, *rest], condition=Q(is_waiting=True), name=f"commerce_queue_{name}")


def _part_index(name: str, part: Q, *first: str) -> models.Index:
    """Return an index that counts a part of the queue, or its ages, without reading all of it."""
    return models.Index(
        fields=[*first, "oldest_at"], condition=Q(is_waiting=True) & part, name=f"commerce_queue_{name}"
    )


class Case(models.Model):
    """All reports of one piece of content, as one item of the queue.

    Its figures are those of the open reports and change in the same transaction.
    """

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
        HELD = "held", "Held by a rule, until a moderator looks"

    model_type = models.CharField(max_length=32, choices=ContentKind.choices)
    model_id = models.BigIntegerField()
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="cases")
    shop = models.ForeignKey(Shop, on_delete=models.PROTECT, related_name="+", db_index=False)
    language = models.CharField(max_length=16)
    state = models.CharField(max_length=16, choices=State.choices, default=State.CLOSED)
    is_waiting = models.BooleanField(default=False)
    hiding = models.CharField(max_length=16, choices=Hiding.choices, default=Hiding.NONE, blank=True)
    # A moderator has kept it: later reports never hide it automatically.
    is_cleared = models.BooleanField(default=False)
    # A moderator left it to a super admin.
    is_escalated = models.BooleanField(default=False, db_default=False)
    reports_count = models.PositiveIntegerField(default=0)
    weight = models.PositiveBigIntegerField(default=0)  # thousandths, summed over the open reports
    trusted_count = models.PositiveIntegerField(default=0)
    is_brigaded = models.BooleanField(default=False)
    # The most severe reason of the open reports with its severity, and when the first of them is due.
    reason = models.ForeignKey(ReportReason, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    severity = models.PositiveSmallIntegerField(default=0, db_default=0)
    due_at = models.DateTimeField(null=True)
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
            # The id first: planners would use an index that begins with the kind to filter the queue by kind.
            models.UniqueConstraint(fields=["model_id", "model_type"], name="commerce_case_one_a_content"),
            models.CheckConstraint(condition=IS_KNOWN_KIND, name="commerce_case_kind_known"),
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
            models.Index(fields=["shop", "-id"], name="commerce_case_of_shop"),
            _queue_index("newest", "-newest_at", "-id"),
            _queue_index("oldest", "oldest_at", "id"),
            _queue_index("reports", "-reports_count", "-id"),
            _queue_index("weight", "-weight", "-id"),
            _queue_index("due", "due_at", "id"),
            _queue_index("severity", "-severity", "due_at", "id"),
            _part_index("age", Q()),
            _part_index("of_shop", Q(), "shop"),
            _part_index("hidden", ~Q(hiding=""), "hiding"),
            _part_index("brigaded", Q(is_brigaded=True)),
            _part_index("appealed", Q(state="appealed")),
            _part_index("escalated", Q(is_escalated=True)),
        ]

    def __str__(self) -> str:
        return f"{self.model_type} {self.model_id}: {self.state}"

    def is_hidden_by_moderator(self) -> bool:
        """Return whether a moderator hid the content for now, which leaves held content held."""
        if self.hiding == self.Hiding.HELD:
            made = self.decisions.filter(pk__lte=self.last_decision_id)  # not the one that is being made
            return made.filter(action="hidden", moderator__isnull=False, undone_at=None).exists()
        return self.hiding == self.Hiding.MODERATOR

    def claimant(self, now: datetime) -> User | None:
        """Return the moderator whose claim is valid now."""
        return self.claimed_by if self.claimed_until and self.claimed_until > now else None
