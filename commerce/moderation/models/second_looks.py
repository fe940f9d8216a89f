"""Second looks: sampled decisions that another moderator decides again, without seeing them."""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from commerce.moderation.models.decisions import Decision
from shared.accounts.models import User


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
