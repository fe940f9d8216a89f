"""Notices to authors and reporters about decisions and sanctions."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from commerce.moderation.models.decisions import Decision
from commerce.moderation.models.sanctions import Sanction
from shared.accounts.models import User


class NoticeQuerySet(models.QuerySet["Notice"]):
    def for_user(self, user: User, now: datetime) -> Self:
        """Return the notices of a user whose decisions can no longer be undone."""
        return self.filter(user=user, due_at__lte=now)

    def to_send(self, now: datetime) -> Self:
        """Return the notices whose e-mails are due and that no other sender has claimed."""
        return self.filter(mail_due_at__lte=now)


class Notice(models.Model):
    """A message to one user about one decision or sanction, and the outbox of its e-mail."""

    class Kind(models.TextChoices):
        CONTENT_HELD = "content_held"
        CONTENT_PUBLISHED = "content_published"
        CONTENT_REMOVED = "content_removed"
        CONTENT_RESTORED = "content_restored"
        WARNING = "warning"
        REPORT_ACCEPTED = "report_accepted"
        REPORT_REJECTED = "report_rejected"
        APPEAL_KEPT = "appeal_kept"
        SANCTION = "sanction"

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="notices", db_index=False)
    # A notice is about a decision or a sanction.
    decision = models.ForeignKey(Decision, on_delete=models.PROTECT, null=True, related_name="notices")
    sanction = models.ForeignKey(Sanction, on_delete=models.PROTECT, null=True, related_name="notices")
    kind = models.CharField(max_length=24, choices=Kind.choices)
    title = models.CharField(max_length=200)
    text = models.TextField()
    due_at = models.DateTimeField()
    appeal_until = models.DateTimeField(null=True)
    # Time of the next attempt to send the e-mail; postponed by each attempt. Null: sent, or given up.
    mail_due_at = models.DateTimeField(null=True)
    mail_attempts = models.PositiveSmallIntegerField(default=0)
    mailed_at = models.DateTimeField(null=True)

    objects = NoticeQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "decision", "kind"], name="commerce_notice_told_once"),
            models.CheckConstraint(
                condition=Q(decision__isnull=False, sanction=None) | Q(decision=None, sanction__isnull=False),
                name="commerce_notice_has_cause",
            ),
        ]
        indexes = [
            models.Index(fields=["user", "-due_at", "-id"], name="commerce_notice_of_user"),
            models.Index(fields=["mail_due_at"], condition=Q(mail_due_at__isnull=False), name="commerce_notice_mail"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.user_id}"
