"""Endpoints, the messages to them, and every attempt to deliver one."""

import secrets
from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import F, OuterRef, Q, Subquery, Window
from django.db.models.functions import RowNumber

from inference.webhooks.destinations import LONGEST_URL
from shared.accounts.models import User


def make_endpoint_id() -> str:
    return f"wh_{secrets.token_hex(12)}"


def make_message_id() -> str:
    return f"msg_{secrets.token_hex(12)}"


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def for_user(self, user: User) -> Self:
        return self.filter(user=user)

    def wanting(self, user: User, event: str) -> "list[Endpoint]":
        """Those of the user that are to be told of this event, and the default one. Until the transaction ends none of
        them can be deleted: that would undo whatever is told of."""
        enabled = self.for_user(user).filter(is_enabled=True).select_for_update(no_key=True)
        return [endpoint for endpoint in enabled if endpoint.is_default or event in endpoint.events]


class Endpoint(models.Model):
    """An address of a user's that is told of events, and the secret that signs what is sent there.

    A user's default endpoint has no address of its own: it signs what goes to the `webhook_url` of single requests.
    """

    class DisabledBy(models.TextChoices):
        OWNER = "owner", "Its owner"
        RECEIVER = "receiver", "The receiver, which answered 410"
        OPERATOR = "operator", "An operator"

    public_id = models.CharField("id", max_length=40, unique=True, default=make_endpoint_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="webhooks", db_index=False)
    is_default = models.BooleanField(default=False)
    url = models.CharField(max_length=LONGEST_URL, blank=True)
    events = models.JSONField(default=list, blank=True)
    is_enabled = models.BooleanField("enabled", default=True)
    disabled_by = models.CharField(max_length=16, choices=DisabledBy.choices, blank=True)
    secret = models.TextField()  # sealed, as the next is
    previous_secret = models.TextField(blank=True)  # signs too, until then
    previous_secret_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = EndpointQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "url"], name="inference_webhook_address_once"),
            models.CheckConstraint(
                condition=Q(is_default=True, url="") | (Q(is_default=False) & ~Q(url="")),
                name="inference_webhook_default_has_no_address",
            ),
            models.CheckConstraint(
                condition=Q(is_enabled=True, disabled_by="")
                | Q(is_enabled=False, disabled_by__in=["owner", "receiver", "operator"]),
                name="inference_webhook_disabled_by_somebody",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def for_user(self, user: User) -> Self:
        return self.filter(endpoint__user=user)

    def unfinished(self) -> Self:
        return self.filter(due_at__isnull=False)

    def to_send(self, now: datetime) -> Self:
        """What is due, and what somebody took to send who has not been heard of since."""
        return self.filter(due_at__lte=now)

    def in_flight(self, now: datetime) -> Self:
        return self.filter(state=Delivery.State.SENDING, due_at__gt=now)

    def with_last_attempt(self) -> Self:
        """With what came of the last one: `last_status` and `last_failure`."""
        last = Attempt.objects.filter(delivery=OuterRef("pk")).order_by("-number")
        return self.annotate(
            last_status=Subquery(last.values("status")[:1]), last_failure=Subquery(last.values("failure")[:1])
        )

    def fair(self, per_destination: int) -> Self:
        """The first few of each user for each destination, so that a long queue hides no other: not for another
        destination, and not of another user for the same one."""
        place = Window(
            RowNumber(), partition_by=[F("endpoint__user"), F("destination")], order_by=[F("due_at"), F("pk")]
        )
        return self.annotate(place=place).filter(place__lte=per_destination)


class Delivery(models.Model):
    """One message to one address: a row of the outbox first, of the ledger in the end. Its id is the same in all
    attempts.

    due_at: when it is next to be sent; while somebody sends it, when others may think that they are dead; null once
    it is over. attempts: of all, also the token by which who sends it knows that it is still theirs. tries: since it
    was announced or last asked for again.
    """

    class State(models.TextChoices):
        PENDING = "pending", "Waiting"
        SENDING = "sending", "Being sent"
        DELIVERED = "delivered", "Delivered"
        FAILED = "failed", "Given up"
        CANCELLED = "cancelled", "Cancelled"

    public_id = models.CharField("id", max_length=40, unique=True, default=make_message_id, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    event = models.CharField(max_length=64)
    url = models.CharField(max_length=LONGEST_URL)
    destination = models.CharField(max_length=300, blank=True)  # host:port of the url
    body = models.TextField()  # as it is signed and sent
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
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
                name="inference_delivery_due_or_finished",
            ),
        ]
        indexes = [
            models.Index(fields=["endpoint", "-id"], name="inference_delivery_of_endpoint"),
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="inference_delivery_due"),
            models.Index(
                fields=["finished_at"], condition=Q(finished_at__isnull=False), name="inference_delivery_finished"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class Attempt(models.Model):
    """What became of one attempt. Of the receiver's answer only its status is kept."""

    class Failure(models.TextChoices):
        """Why it did not arrive."""

        ADDRESS_REFUSED = "address_refused", "The address is not, or no longer, a public one"
        NAME_UNKNOWN = "name_unknown", "The name could not be looked up"
        NOT_CONNECTED = "not_connected", "No connection"
        TLS = "tls", "No safe connection: the certificate or the protocol is not right"
        TIMED_OUT = "timed_out", "No answer in time"
        BROKEN_ANSWER = "broken_answer", "The connection broke, or what came was no answer"
        TOO_LARGE = "too_large", "The answer was too large"
        REDIRECTED = "redirected", "The answer leads elsewhere, which is not followed"
        STATUS = "status", "The answer was no success"
        SECRET_LOST = "secret_lost", "The secret cannot be read: rotate it"
        INTERNAL = "internal", "Something failed on our side"

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="ledger", db_index=False)
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    status = models.PositiveSmallIntegerField(null=True)
    failure = models.CharField(max_length=24, choices=Failure.choices, blank=True)  # blank: it arrived

    class Meta:
        ordering = ["delivery", "number"]
        constraints = [
            models.UniqueConstraint(fields=["delivery", "number"], name="inference_attempt_number_once"),
        ]

    def __str__(self) -> str:
        return f"{self.delivery_id}, attempt {self.number}"
