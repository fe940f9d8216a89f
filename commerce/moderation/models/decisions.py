"""Decisions of moderators and of rules."""

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from commerce.moderation.models.cases import Case
from shared.accounts.models import User


class Decision(models.Model):
    """A decision of a moderator, or of a rule if `moderator` is null, with the reports and the content before it.

    Undo, the weights of reporters and the audit log use these records.
    """

    class Action(models.TextChoices):
        ACCEPTED = "accepted", _("Taken down")
        REJECTED = "rejected", _("Kept, and its reports deleted")
        HIDDEN = "hidden", _("Hidden for now")
        SHOWN = "shown", _("Shown again")
        WARNED = "warned", _("Its author was warned")
        RESTORED = "restored", _("Restored after it was taken down")
        REPORT_DELETED = "report_deleted", _("A report was deleted")
        ESCALATED = "escalated", _("Escalated to a super admin")
        APPEAL_KEPT = "appeal_kept", _("Appeal: it stays down")
        APPEAL_OVERTURNED = "appeal_overturned", _("Appeal: restored")

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="decisions")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", db_index=False)
    action = models.CharField(_("action"), max_length=24, choices=Action.choices)
    moderator = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, related_name="decisions", verbose_name=_("moderator")
    )
    note = models.TextField(_("note"), blank=True)  # for moderators
    reason = models.TextField(blank=True)  # for the author and the reporters
    reports = models.JSONField(default=list)
    reports_count = models.PositiveIntegerField(_("reports count"), default=0)
    content = models.JSONField(default=dict)  # before the decision
    before = models.JSONField(default=dict)  # see snapshots.state_record
    created_at = models.DateTimeField(_("created at"))
    undo_until = models.DateTimeField()
    undone_at = models.DateTimeField(_("undone at"), null=True)
    undone_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)

    class Meta:
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["-created_at", "action", "reports_count"],
                condition=Q(undone_at=None),
                name="commerce_decision_standing",
            ),
            models.Index(fields=["author", "action"], name="commerce_decision_of_author"),
            models.Index(fields=["action", "-id"], name="commerce_decision_by_action"),
            models.Index(fields=["-id"], condition=Q(undone_at__isnull=False), name="commerce_decision_undone"),
        ]

    def __str__(self) -> str:
        return f"{self.action}: {self.case_id}"

    def can_be_undone(self, now: datetime) -> bool:
        return self.undone_at is None and now < self.undo_until
