"""Announcing something and sending what is due, as tests do it."""

from datetime import datetime, timedelta

from django.utils import timezone

from inference.webhooks.delivery import deliver_due
from inference.webhooks.models import Attempt, Delivery, Endpoint
from inference.webhooks.services import announce, create_endpoint, default_secret
from shared.accounts.models import User

DATA = {"batch_id": "batch_1", "status": "completed", "total": 3}


def endpoint_at(user: User, url: str) -> tuple[Endpoint, str]:
    """A new endpoint and its secret."""
    issued = create_endpoint(user=user, url=url, events=["batch.complete"], is_enabled=True, now=timezone.now())
    return issued.endpoint, issued.secret


def announced(user: User, url: str | None = None) -> list[Delivery]:
    """Something has happened: the messages that tell of it, oldest first. url: of a request that was accepted."""
    if url is not None:
        default_secret(user=user, now=timezone.now())
    return messages(user, url)


def messages(user: User, url: str | None = None) -> list[Delivery]:
    """As `announced`, whatever became of the default endpoint since the request was accepted."""
    last = Delivery.objects.order_by("pk").last()
    announce(user=user, url=url, event="batch.complete", data=DATA, now=timezone.now())
    return list(Delivery.objects.filter(pk__gt=last.pk if last else 0).order_by("pk"))


def deliver_at(when: datetime) -> int:
    """As if it were so late."""
    return deliver_due(clock=lambda: when)


def try_until_the_end(delivery: Delivery) -> list[timedelta]:
    """Sends it whenever it is due, and answers what the waits between were."""
    waits, at = [], delivery.due_at
    while at is not None:
        deliver_at(at)
        delivery.refresh_from_db()
        waits += [delivery.due_at - at] if delivery.due_at else []
        at = delivery.due_at
    return waits


def ledger(delivery: Delivery) -> list[tuple[int, int | None, str]]:
    """Its attempts: number, status, failure."""
    rows = Attempt.objects.filter(delivery=delivery).order_by("number")
    return [(row.number, row.status, row.failure) for row in rows]
