"""Decisions of moderators and of rules, appeals against them and second looks at them."""

from datetime import datetime
from typing import Self

from django.conf import settings
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
            models.Index(fields=["-created_at", "-id"], name="commerce_decision_newest"),
            models.Index(fields=["author", "action"], name="commerce_decision_of_author"),
            models.Index(fields=["action", "-id"], name="commerce_decision_by_action"),
            models.Index(fields=["-id"], condition=Q(undone_at__isnull=False), name="commerce_decision_undone"),
        ]

    def __str__(self) -> str:
        return f"{self.action}: {self.case_id}"

    @property
    def text(self) -> str:
        """Return the text of the review or question before the decision."""
        return str(self.content.get("comment") or self.content.get("question") or "")

    def can_be_undone(self, now: datetime) -> bool:
        return self.undone_at is None and now < self.undo_until


class AppealQuerySet(models.QuerySet["Appeal"]):
    def for_user(self, user: User) -> Self:
        """Return the appeals that this user made."""
        return self.filter(author=user)


class Appeal(models.Model):
    """An author's appeal against a removal; each removal has one at most."""

    class Status(models.TextChoices):
        OPEN = "open"
        KEPT = "kept", "The content stays down"
        OVERTURNED = "overturned", "The content is back"

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="appeals")
    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="appeal")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="appeals")
    message = models.TextField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.OPEN)
    result = models.ForeignKey(Decision, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    created_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)

    objects = AppealQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(status="open", result__isnull=True, decided_at__isnull=True)
                | Q(status__in=["kept", "overturned"], result__isnull=False, decided_at__isnull=False),
                name="commerce_appeal_decided_or_open",
            )
        ]

    def __str__(self) -> str:
        return f"Appeal {self.pk}: {self.status}"


class SecondLookQuerySet(models.QuerySet["SecondLook"]):
    def sample(self, decision: Decision) -> None:
        """Create the second look at a moderator's verdict about reports, if the id of the decision is sampled."""
        interval = settings.MODERATION_SECOND_LOOK_INTERVAL
        is_verdict = decision.action in (Decision.Action.ACCEPTED, Decision.Action.REJECTED)
        if interval and decision.pk % interval == 0 and is_verdict and decision.moderator_id and decision.reports_count:
            self.create(decision=decision, created_at=decision.created_at)

    def standing(self) -> Self:
        """Return the second looks at decisions that were not undone."""
        return self.filter(decision__undone_at=None)

    def open_for(self, moderator: User) -> Self:
        """Return what this moderator may decide: what nobody has, and neither an own decision nor own content."""
        others = self.standing().filter(verdict=SecondLook.Verdict.NONE).exclude(decision__moderator=moderator)
        return others.exclude(decision__author=moderator).order_by("id")


class SecondLook(models.Model):
    """A decision that another moderator decides again. Its verdict changes nothing but the statistics."""

    class Verdict(models.TextChoices):
        NONE = "", "Open"
        ACCEPTED = "accepted", "Would take it down"
        REJECTED = "rejected", "Would keep it"

    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="second_look")
    verdict = models.CharField(max_length=16, choices=Verdict.choices, default=Verdict.NONE, blank=True)
    moderator = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    created_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)

    objects = SecondLookQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict="", moderator=None, decided_at=None)
                | Q(verdict__in=["accepted", "rejected"], moderator__isnull=False, decided_at__isnull=False),
                name="commerce_second_look_decided_or_open",
            )
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(verdict=""), name="commerce_second_look_open"),
            models.Index(fields=["-decided_at"], name="commerce_second_look_decided"),
        ]

    def __str__(self) -> str:
        return f"Second look at decision {self.decision_id}: {self.verdict or 'open'}"
