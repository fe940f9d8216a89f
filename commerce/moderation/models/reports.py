"""Abuse reports and the accuracy of the users who made them."""

from typing import Self

from django.db import models
from django.db.models import Q

from commerce.moderation.models.reasons import ReportReason
from shared.accounts.models import User

PRIOR_AGREED, PRIOR_DECIDED = 2, 4  # decisions that a new reporter begins with


class ContentKind(models.TextChoices):
    """Kinds of content that users can report and moderators can take down."""

    REVIEW = "Review"
    QUESTION = "Question"


IS_KNOWN_KIND = Q(model_type__in=["Review", "Question"])


class ReportQuerySet(models.QuerySet["AbuseReport"]):
    def for_user(self, user: User) -> Self:
        """Return the reports that this user made."""
        return self.filter(user=user)

    def of(self, model_type: str, model_id: int) -> Self:
        """Return the reports of one piece of content."""
        return self.filter(model_type=model_type, model_id=model_id)


class AbuseReport(models.Model):
    """One user's report of one piece of content."""

    class Status(models.TextChoices):
        OPEN = "open"
        ACCEPTED = "accepted"
        WITHDRAWN = "withdrawn", "Withdrawn: the content was taken back first"

    class Standing(models.TextChoices):
        """Whether the report counts for automatic hiding, or why not, at the time it was made."""

        TRUSTED = "trusted"
        UNRELIABLE = "unreliable", "Moderators have mostly disagreed with this reporter"
        NEW_ACCOUNT = "new_account", "The account was new"
        INVOLVED = "involved", "The reporter works for the shop, or wrote the content"

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="abuse_reports")
    model_type = models.CharField(max_length=32, choices=ContentKind.choices)
    model_id = models.BigIntegerField()
    reason = models.ForeignKey(ReportReason, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    message = models.TextField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.OPEN)
    weight = models.PositiveSmallIntegerField(default=500)  # thousandths; see Reporter
    standing = models.CharField(max_length=16, choices=Standing.choices, default=Standing.TRUSTED)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = ReportQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "model_type", "model_id"], name="commerce_report_once_a_user"),
            models.CheckConstraint(condition=IS_KNOWN_KIND, name="commerce_report_kind_known"),
        ]
        indexes = [
            models.Index(fields=["status", "-created_at", "-id"], name="commerce_report_newest"),
            models.Index(fields=["status", "updated_at", "id"], name="commerce_report_updated"),
            models.Index(fields=["model_type", "model_id"], name="commerce_report_of_content"),
            models.Index(fields=["reason", "status", "-created_at", "-id"], name="commerce_report_by_reason"),
        ]

    def __str__(self) -> str:
        return f"Report {self.pk} of {self.model_type} {self.model_id}"


class Reporter(models.Model):
    """Number of decisions that agreed and disagreed with the reports of a user.

    The weight is the share of decisions that agreed, as the mean of a beta distribution with a prior of four decisions:
    (agreed + 2) / (agreed + disagreed + 4). Without decisions it is 0.5, after one agreement 0.6, after one
    disagreement 0.4.
    """

    user = models.OneToOneField(User, on_delete=models.PROTECT, related_name="reporter", primary_key=True)
    agreed = models.PositiveIntegerField(default=0)
    disagreed = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.user_id}: {self.agreed} of {self.decided}"

    @property
    def decided(self) -> int:
        return self.agreed + self.disagreed

    @property
    def weight(self) -> int:
        """Return the weight in thousandths, above 0 and below 1000."""
        return round(1000 * (self.agreed + PRIOR_AGREED) / (self.decided + PRIOR_DECIDED))

    @property
    def percent(self) -> int:
        """Return the weight in percent."""
        return self.weight // 10
