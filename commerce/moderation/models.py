"""Abuse reports: who says that which content should not be there, and why."""

from django.db import models

from shared.accounts.models import User


class AbuseReport(models.Model):
    """One user's report of one piece of content."""

    class Kind(models.TextChoices):
        """The closed list of what can be reported, and so of what a moderator can take down."""

        REVIEW = "Review"
        QUESTION = "Question"

    class Status(models.TextChoices):
        OPEN = "open"
        ACCEPTED = "accepted"

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="abuse_reports")
    model_type = models.CharField(max_length=32, choices=Kind.choices)
    model_id = models.BigIntegerField()
    message = models.TextField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.OPEN)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "model_type", "model_id"], name="commerce_report_once_a_user"),
            models.CheckConstraint(
                condition=models.Q(model_type__in=["Review", "Question"]), name="commerce_report_kind_known"
            ),
        ]
        indexes = [
            models.Index(fields=["status", "-created_at", "-id"], name="commerce_report_newest"),
            models.Index(fields=["model_type", "model_id"], name="commerce_report_of_content"),
        ]

    def __str__(self) -> str:
        return f"Report {self.pk} of {self.model_type} {self.model_id}"
