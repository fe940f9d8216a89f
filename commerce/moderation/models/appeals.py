"""Appeals of authors against decisions."""

from typing import Self

from django.db import models
from django.db.models import Q

from commerce.moderation.models.cases import Case
from commerce.moderation.models.decisions import Decision
from shared.accounts.models import User


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
