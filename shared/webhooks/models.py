"""Webhook endpoints, the outbox of deliveries to them, and every delivery attempt, in tables of the project's own."""

import secrets
from datetime import datetime
from typing import Self

from django.conf import settings
from django.db import connections, models
from django.db.models import F, OuterRef, Q, Subquery, Window
from django.db.models.functions import RowNumber

from shared.accounts.models import User
from shared.webhooks.destinations import MAX_URL_LENGTH


def make_endpoint_id() -> str:
    """Return a new public endpoint id."""
    return f"wh_{secrets.token_hex(12)}"


def make_message_id() -> str:
    """Return a new public delivery id, the `webhook-id` of the message."""
    return f"msg_{secrets.token_hex(12)}"


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    """Queries of endpoints."""

    def for_user(self, user: User) -> Self:
        """Return the user's own, newest first."""
        return self.filter(user=user)

    def of_former_users(self) -> Self:
        """Return the enabled ones of users who are deactivated or whose role may no longer have webhooks."""
        return self.filter(is_enabled=True).exclude(user__is_active=True, user__role__in=settings.WEBHOOK_ROLES)

    def lock_subscribed(self, event: str) -> "list[Endpoint]":
        """Return and lock the enabled endpoints with this event, and the default ones.

        The lock keeps them from being changed or deleted before the transaction ends: that would roll back the event
        itself. It is shared, so that events do not wait for each other.
        """
        enabled = self.filter(is_enabled=True).order_by("pk")
        found = [one for one in enabled if one.is_default or event in one.events]
        if not found or connections[self.db].vendor != "postgresql":
            return found
        table = connections[self.db].ops.quote_name(self.model._meta.db_table)
        statement = f"SELECT id FROM {table} WHERE id = ANY(%s) AND is_enabled ORDER BY id FOR SHARE"  # noqa: S608 # nosec B608
        with connections[self.db].cursor() as cursor:
            cursor.execute(statement, [[endpoint.pk for endpoint in found]])
            locked = {pk for (pk,) in cursor.fetchall()}
        return [endpoint for endpoint in found if endpoint.pk in locked]


class Endpoint(models.Model):
    """A user's URL that receives events, and the secret that signs them.

    A user's default endpoint has no URL: it signs what is sent to the `webhook_url` of single requests.
    """

    class DisabledBy(models.TextChoices):
        OWNER = "owner", "Owner"
        RECEIVER = "receiver", "Receiver (410 Gone)"
        OPERATOR = "operator", "Operator"

    public_id = models.CharField("id", max_length=40, unique=True, default=make_endpoint_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="webhooks", db_index=False)
    is_default = models.BooleanField(default=False)
    url = models.CharField(max_length=MAX_URL_LENGTH, blank=True)
    events = models.JSONField(default=list, blank=True)
    is_enabled = models.BooleanField("enabled", default=True)
    disabled_by = models.CharField(max_length=16, choices=DisabledBy.choices, blank=True)
    secret = models.TextField()  # encrypted, as the previous one
    previous_secret = models.TextField(blank=True)  # also signs, until previous_secret_until
    previous_secret_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = EndpointQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "url"], name=f"{settings.PROJECT}_webhook_address_once"),
            models.CheckConstraint(
                condition=Q(is_default=True, url="") | (Q(is_default=False) & ~Q(url="")),
                name=f"{settings.PROJECT}_webhook_default_has_no_address",
            ),
            models.CheckConstraint(
                condition=Q(is_enabled=True, disabled_by="")
                | Q(is_enabled=False, disabled_by__in=["owner", "receiver", "operator"]),
                name=f"{settings.PROJECT}_webhook_disabled_by_somebody",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class DeliveryState(models.TextChoices):
    """States of a delivery. Only the first two have a `due_at`."""

    PENDING = "pending", "Pending"
    SENDING = "sending", "Sending"
    DELIVERED = "delivered", "Delivered"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    """Queries of deliveries."""

    def for_user(self, user: User) -> Self:
        """Return the deliveries to the user's endpoints."""
        return self.filter(endpoint__user=user)

    def unfinished(self) -> Self:
        """Return the deliveries that are pending or being sent."""
        return self.filter(due_at__isnull=False)

    def due(self, now: datetime) -> Self:
        """Return the deliveries to send now, those included whose sender's lease has expired."""
        return self.filter(due_at__lte=now)

    def in_flight(self, now: datetime) -> Self:
        """Return the deliveries that a live worker is sending."""
        return self.filter(state=DeliveryState.SENDING, due_at__gt=now)

    def with_last_attempt(self) -> Self:
        """Annotate `last_status` and `last_failure` of the last attempt."""
        last = Attempt.objects.filter(delivery=OuterRef("pk")).order_by("-number")
        return self.annotate(
            last_status=Subquery(last.values("status")[:1]), last_failure=Subquery(last.values("failure")[:1])
        )

    def first_per_destination(self, count: int) -> Self:
        """Return the first deliveries of each user to each destination.

        A long queue then hides neither other destinations nor other users of the same destination.
        """
        rank = Window(
            RowNumber(), partition_by=[F("endpoint__user"), F("destination")], order_by=[F("due_at"), F("pk")]
        )
        return self.annotate(rank=rank).filter(rank__lte=count)


class Delivery(models.Model):
    """One message to one URL: a row of the outbox until it has ended, then a row of the log. All attempts share its id.

    due_at: when to send it; while a worker sends it, when that worker's lease expires; null once it has ended.
    attempts: all attempts, and the fencing token of the worker that makes the current one. tries: attempts since the
    announcement or the last redelivery, the position in the retry schedule.
    """

    public_id = models.CharField("id", max_length=40, unique=True, default=make_message_id, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    event = models.CharField(max_length=64)
    url = models.CharField(max_length=MAX_URL_LENGTH)
    destination = models.CharField(max_length=300, blank=True)  # host:port of url
    body = models.TextField()  # exactly as signed and sent
    state = models.CharField(max_length=16, choices=DeliveryState.choices, default=DeliveryState.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    tries = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "deliveries"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["pending", "sending"], due_at__isnull=False, finished_at=None)
                | Q(state__in=["delivered", "failed", "cancelled"], due_at=None, finished_at__isnull=False),
                name=f"{settings.PROJECT}_delivery_due_or_finished",
            ),
        ]
        indexes = [
            models.Index(fields=["endpoint", "-id"], name=f"{settings.PROJECT}_delivery_of_endpoint"),
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name=f"{settings.PROJECT}_delivery_due"),
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False),
                name=f"{settings.PROJECT}_delivery_finished",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class Attempt(models.Model):
    """One delivery attempt. Of the receiver's response only the status is stored."""

    class Failure(models.TextChoices):
        """Reasons why an attempt failed."""

        ADDRESS_REFUSED = "address_refused", "The address is not public"
        NAME_UNKNOWN = "name_unknown", "Name lookup failed"
        NOT_CONNECTED = "not_connected", "Connection failed"
        TLS = "tls", "TLS failed: invalid certificate or protocol"
        TIMED_OUT = "timed_out", "Timed out"
        BROKEN_ANSWER = "broken_answer", "Connection lost or invalid response"
        TOO_LARGE = "too_large", "Response too large"
        REDIRECTED = "redirected", "Redirect (not followed)"
        STATUS = "status", "Unsuccessful status"
        SECRET_LOST = "secret_lost", "Secret cannot be decrypted: rotate it"
        INTERNAL = "internal", "Internal error"

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="attempt_log", db_index=False)
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    status = models.PositiveSmallIntegerField(null=True)
    failure = models.CharField(max_length=24, choices=Failure.choices, blank=True)  # blank: delivered

    class Meta:
        ordering = ["delivery", "number"]
        constraints = [
            models.UniqueConstraint(fields=["delivery", "number"], name=f"{settings.PROJECT}_attempt_number_once"),
        ]

    def __str__(self) -> str:
        return f"{self.delivery_id}, attempt {self.number}"
