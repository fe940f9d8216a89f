"""Deliveries: list and find a user's own, and redeliver with the same id and body to the endpoint's current URL."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.webhooks.models import Delivery, DeliveryState, Endpoint
from shared.webhooks.services import ObjectNotFound, chunks, destination_of, find_endpoint


@dataclass(frozen=True)
class RedeliveryCounts:
    """Counts of deliveries: queued again, refused for a disabled endpoint, and skipped as being sent or deleted."""

    queued: int = 0
    disabled: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        parts = [f"Queued again: {self.queued}."]
        parts += [f"Webhook disabled, enable it first: {self.disabled}."] if self.disabled else []
        parts += [f"Being sent, or deleted: {self.skipped}."] if self.skipped else []
        return " ".join(parts)


def list_deliveries(*, user: User, endpoint_id: str, state: str, after: str, limit: int) -> list[Delivery]:
    """Return the deliveries of the user's endpoint after the one with this id, newest first.

    state: "" for all. Raises ApiError 404 for the endpoint, and 400 for an unknown `after`.
    """
    endpoint = find_endpoint(user=user, endpoint_id=endpoint_id)
    deliveries = endpoint.deliveries.all()
    if after:
        last = deliveries.filter(public_id=after).first()
        if last is None:
            message = f"`after` must be the id of a delivery of this webhook, not {after[:40]!r}."
            raise ApiError(400, message, details={"field": "after"})
        deliveries = deliveries.filter(pk__lt=last.pk)
    return list((deliveries.filter(state=state) if state else deliveries)[:limit])


def find_delivery(*, user: User, endpoint_id: str, delivery_id: str) -> Delivery:
    """Return a delivery of the user's endpoint. Raises ApiError 404, for another user's too."""
    deliveries = Delivery.objects.for_user(user).filter(endpoint__public_id=endpoint_id, public_id=delivery_id)
    delivery = deliveries.prefetch_related("attempt_log").first()
    if delivery is None:
        raise ObjectNotFound("delivery", delivery_id)
    return delivery


def redeliver(*, delivery: Delivery, now: datetime) -> Delivery:
    """Send the delivery again now, with the full retry schedule, to the endpoint's current address.

    Raises ApiError 404 if it was deleted, and 400 if it is being sent or its endpoint is disabled.
    """
    counts = redeliver_all(deliveries=[delivery.pk], now=now)
    row = Delivery.objects.filter(pk=delivery.pk).first()
    if row is None:
        raise ObjectNotFound("delivery", delivery.public_id)
    if counts.disabled:
        raise ApiError(400, "The webhook is disabled. Enable it first.")
    if counts.skipped:
        raise ApiError(400, "The delivery is being sent. Try again in a moment.")
    return row


def redeliver_own(*, user: User, endpoint_id: str, delivery_id: str, now: datetime) -> Delivery:
    """Redeliver a delivery of the user's endpoint. Raises as `find_delivery` and `redeliver` do."""
    return redeliver(delivery=find_delivery(user=user, endpoint_id=endpoint_id, delivery_id=delivery_id), now=now)


def redeliver_all(*, deliveries: Sequence[int], now: datetime) -> RedeliveryCounts:
    """Redeliver many deliveries, given by primary key, in transactions of MAX_ROWS_PER_TRANSACTION."""
    queued = disabled = 0
    for chunk in chunks(deliveries):
        rows = _redeliver_chunk(chunk, now)
        ready = sum(row.endpoint.is_enabled for row in rows)
        queued, disabled = queued + ready, disabled + len(rows) - ready
    return RedeliveryCounts(queued, disabled, len(deliveries) - queued - disabled)


@transaction.atomic
def _redeliver_chunk(deliveries: Sequence[int], now: datetime) -> list[Delivery]:
    """Make the deliveries of enabled endpoints due, and return those that nobody is sending.

    Locks endpoints before deliveries, as every writer of an endpoint does.
    """
    chosen = Delivery.objects.filter(pk__in=deliveries)
    locked = Endpoint.objects.filter(pk__in=chosen.values("endpoint")).select_for_update(no_key=True)
    endpoints = {endpoint.pk: endpoint for endpoint in locked}
    rows = list(chosen.exclude(state=DeliveryState.SENDING).defer("body").select_for_update(skip_locked=True))
    for row in rows:
        row.endpoint = endpoints[row.endpoint_id]
    _make_due([row for row in rows if row.endpoint.is_enabled], now)
    return rows


def _make_due(deliveries: Sequence[Delivery], now: datetime) -> None:
    """Make locked deliveries due now, at the current addresses of their endpoints."""
    chosen = Delivery.objects.filter(pk__in=[delivery.pk for delivery in deliveries])
    chosen.update(state=DeliveryState.PENDING, tries=0, due_at=now, finished_at=None)
    moved = defaultdict[tuple[str, str], list[int]](list)
    for delivery in deliveries:
        url = delivery.endpoint.url or delivery.url
        address = url, destination_of(url)
        if address != (delivery.url, delivery.destination):
            moved[address].append(delivery.pk)
    for (url, destination), keys in moved.items():
        Delivery.objects.filter(pk__in=keys).update(url=url, destination=destination)
