"""Audit entries. The database refuses to change or delete them (see `triggers`)."""

from typing import Any, NoReturn, Self

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q


class AppendOnlyError(Exception):
    """Attempt to change or delete an audit entry."""

    def __init__(self) -> None:
        super().__init__("Audit entries are append-only. Add a new entry instead.")


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    def about(self, target_type: str, target_id: int) -> Self:
        """Return the entries of one target, newest first."""
        return self.filter(target_type=target_type, target_id=target_id).order_by("-id")

    def update(self, **values: Any) -> NoReturn:
        raise AppendOnlyError

    def delete(self) -> NoReturn:
        raise AppendOnlyError

    def bulk_update(self, *args: Any, **options: Any) -> NoReturn:
        raise AppendOnlyError


class AuditEntry(models.Model):
    """One recorded action. `actor` is None for an automatic one."""

    at = models.DateTimeField()
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    action = models.CharField(max_length=64)  # app.past_participle, as in moderation.accepted
    target_type = models.CharField(max_length=64)
    target_id = models.BigIntegerField()
    details = models.JSONField(default=dict, encoder=DjangoJSONEncoder)  # includes the target's state before the action
    request_id = models.CharField(max_length=64, blank=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name = "audit entry"
        verbose_name_plural = "audit log"
        constraints = [models.CheckConstraint(condition=~Q(action=""), name="audit_entry_says_what")]
        indexes = [
            models.Index(fields=["target_id", "target_type", "-id"], name="audit_entry_of_target"),
            models.Index(fields=["action", "-id"], name="audit_entry_of_action"),
            models.Index(fields=["-at", "-id"], name="audit_entry_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.action}: {self.target_type} {self.target_id}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyError
        super().save(*args, **options)

    def delete(self, *args: Any, **options: Any) -> NoReturn:
        raise AppendOnlyError
