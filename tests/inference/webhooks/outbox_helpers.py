"""Short forms for tests: create endpoints, announce events, deliver, and read attempts."""

from datetime import datetime, timedelta

from django.utils import timezone

from shared.accounts.models import User
from shared.webhooks.delivery.outbox import deliver_due
from shared.webhooks.models import Attempt, Delivery, Endpoint
from shared.webhooks.services import announce, create_default_endpoint, create_endpoint

DATA = {"batch_id": "batch_1", "status": "completed", "total": 3}


def create_endpoint_at(user: User, url: str) -> tuple[Endpoint, str]:
    """Create an endpoint, and return it with its secret."""
    issued = create_endpoint(user=user, url=url, events=["batch.complete"], is_enabled=True, now=timezone.now())
    return issued.endpoint, issued.secret


def announce_event(user: User, url: str | None = None) -> list[Delivery]:
    """Announce an event, and return its deliveries, oldest first. url: the `webhook_url` of a request."""
    if url is not None:
        create_default_endpoint(user=user, now=timezone.now())
    return announce_without_default_endpoint(user, url)


def announce_without_default_endpoint(user: User, url: str | None = None) -> list[Delivery]:
    """Announce an event without creating the default endpoint, and return its deliveries."""
    last = Delivery.objects.order_by("pk").last()
    announce(user=user, url=url, event="batch.complete", data=DATA, now=timezone.now())
    return list(Delivery.objects.filter(pk__gt=last.pk if last else 0).order_by("pk"))


def deliver_at(when: datetime) -> int:
    """Deliver what is due at this time."""
    return deliver_due(clock=lambda: when)


def deliver_until_finished(delivery: Delivery) -> list[timedelta]:
    """Send the delivery whenever it is due until it ends, and return the delays between the attempts."""
    waits, at = [], delivery.due_at
    while at is not None:
        deliver_at(at)
        delivery.refresh_from_db()
        waits += [delivery.due_at - at] if delivery.due_at else []
        at = delivery.due_at
    return waits


def get_attempts(delivery: Delivery) -> list[tuple[int, int | None, str]]:
    """Return number, status and failure of each attempt."""
    rows = Attempt.objects.filter(delivery=delivery).order_by("number")
    return [(row.number, row.status, row.failure) for row in rows]
