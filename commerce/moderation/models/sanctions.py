"""Sanctions of authors: what a user may not write, and until when."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from shared.accounts.models import User


class SanctionQuerySet(models.QuerySet["Sanction"]):
    def for_user(self, user: User) -> Self:
        """Return the sanctions of this user."""
        return self.filter(user=user)

    def in_force(self, now: datetime) -> Self:
        """Return the sanctions that are neither lifted nor over."""
        return self.filter(Q(ends_at=None) | Q(ends_at__gt=now), lifted_at=None)


class Sanction(models.Model):
    """A sanction of a user by a moderator. A warning forbids nothing; the others restrict writing."""

    class Kind(models.TextChoices):
        WARNING = "warning", _("Warning")
        LIMIT = "limit", _("Limit: few reviews, questions and reports a day")
        SUSPENSION = "suspension", _("Suspension: no reviews, questions and reports")
        BAN = "ban", _("Ban: the same, without an end")

    class AppealState(models.TextChoices):
        NONE = "", _("None")
        OPEN = "open", _("Open")
        KEPT = "kept", _("The sanction stays")
        OVERTURNED = "overturned", _("The sanction was lifted")

    user = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="sanctions", db_index=False, verbose_name=_("user")
    )
    kind = models.CharField(_("kind"), max_length=16, choices=Kind.choices)
    reason = models.TextField(_("reason"))  # for the user
    note = models.TextField(_("note"), blank=True)  # for moderators
    moderator = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="+", db_index=False, verbose_name=_("moderator")
    )
    created_at = models.DateTimeField(_("created at"))
    ends_at = models.DateTimeField(_("ends at"), null=True)
    lifted_at = models.DateTimeField(_("lifted at"), null=True)
    lifted_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, related_name="+", db_index=False, verbose_name=_("lifted by")
    )
    appeal = models.CharField(
        _("appeal"), max_length=16, choices=AppealState.choices, default=AppealState.NONE, blank=True
    )
    appeal_message = models.TextField(_("appeal message"), blank=True)
    appealed_at = models.DateTimeField(_("appealed at"), null=True)

    objects = SanctionQuerySet.as_manager()

    class Meta:
        verbose_name = _("sanction")
        verbose_name_plural = _("sanctions")
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["warning", "ban"], ends_at=None)
                | Q(kind__in=["limit", "suspension"], ends_at__isnull=False),
                name="commerce_sanction_has_end",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["warning", "limit", "suspension", "ban"]), name="commerce_sanction_kind_known"
            ),
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="commerce_sanction_of_user"),
            models.Index(fields=["-id"], condition=Q(appeal="open"), name="commerce_sanction_appealed"),
        ]

    def __str__(self) -> str:
        kind = self.get_kind_display().partition(":")[0]
        return gettext("%(kind)s of user %(user)s") % {"kind": kind, "user": self.user_id}

    def is_in_force(self, now: datetime) -> bool:
        return self.lifted_at is None and (self.ends_at is None or self.ends_at > now)
