"""Model of the stored spans."""

from datetime import datetime, timedelta
from typing import Self

from django.db import models

from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.roles import Permission

RETENTION = timedelta(days=1)
MAX_OPERATION_NAME_LENGTH = 300  # `inference.` and a model id


class SpanQuerySet(models.QuerySet["Span"]):
    def for_principal(self, principal: Principal) -> Self:
        """Return the user's spans, or all spans if the user manages models."""
        return self if principal.has_permission(Permission.MANAGE_MODELS) else self.filter(user=principal.user)

    def recent(self, now: datetime) -> Self:
        """Return the spans within their retention, newest first."""
        return self.filter(started_at__gt=now - RETENTION).order_by("-started_at", "-pk")


class Span(models.Model):
    """A completed span of a trace. `span_exporter` writes rows, and deletes them after a day or above a maximum number.

    `parent_span_id` is "" without a parent; the parent may be a span of another server.
    """

    class Status(models.TextChoices):
        OK = "ok"
        ERROR = "error"

    trace_id = models.CharField(max_length=32)
    span_id = models.CharField(max_length=16)
    parent_span_id = models.CharField(max_length=16, blank=True)
    operation_name = models.CharField(max_length=MAX_OPERATION_NAME_LENGTH)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    request_id = models.CharField(max_length=128, blank=True)
    started_at = models.DateTimeField()
    duration_ms = models.PositiveBigIntegerField()
    status = models.CharField(max_length=8, choices=Status)
    attributes = models.JSONField(default=dict)

    objects = SpanQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["-started_at"], name="inference_traces_newest"),
            models.Index(fields=["trace_id"], name="inference_traces_of_trace"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=["ok", "error"]), name="inference_traces_status_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation_name} {self.trace_id}"
