"""Sending again what was sent before, or given up: with its id and body, to the address that its endpoint has now."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from inference.webhooks.models import Delivery, Endpoint
from inference.webhooks.reading import find_delivery
from inference.webhooks.services import destination_of, pieces
from shared.accounts.models import User
from shared.api.errors import ApiError

State = Delivery.State


@dataclass(frozen=True)
class Redelivered:
    """How many deliveries are sent again, how many are those of disabled endpoints, and how many are being sent just
    now or gone."""

    sent: int = 0
    disabled: int = 0
    missed: int = 0

    def __add__(self, other: "Redelivered") -> "Redelivered":
        return Redelivered(self.sent + other.sent, self.disabled + other.disabled, self.missed + other.missed)

    def __str__(self) -> str:
        told = [f"To be sent again: {self.sent}."]
        told += [f"Their webhook is disabled, enable it first: {self.disabled}."] if self.disabled else []
        told += [f"Being sent just now, or gone: {self.missed}."] if self.missed else []
        return " ".join(told)


def redeliver(*, delivery: Delivery, now: datetime) -> Delivery:
    """Sends it again, now, with its id and its body, and once more by the whole schedule where that fails; to the
    address that its endpoint has now. Raises ApiError 404: it is gone; 400: it is being sent, or its endpoint is
    disabled."""
    with transaction.atomic():
        rows = Delivery.objects.filter(pk=delivery.pk).select_related("endpoint")
        row = rows.select_for_update(of=("self",)).first()
        if row is None:
            raise ApiError(404, f"The delivery {delivery.public_id} is gone.")
        if row.state == State.SENDING:
            raise ApiError(400, "It is being sent just now. Look again in a moment.")
        if not row.endpoint.is_enabled:
            raise ApiError(400, "Its webhook is disabled: enable it first.")
        _make_due([row], now)
        row.refresh_from_db()
    return row


def redeliver_own(*, user: User, endpoint_id: str, delivery_id: str, now: datetime) -> Delivery:
    """`redeliver` of the user's own. Raises ApiError 404 too."""
    return redeliver(delivery=find_delivery(user=user, endpoint_id=endpoint_id, delivery_id=delivery_id), now=now)


def redeliver_all(*, deliveries: Sequence[int], now: datetime) -> Redelivered:
    """`redeliver` of many, by their keys. Each CHANGED_AT_ONCE of them are a transaction of their own."""
    return sum((_redeliver_some(some, now) for some in pieces(deliveries)), Redelivered())


@transaction.atomic
def _redeliver_some(deliveries: Sequence[int], now: datetime) -> Redelivered:
    """Whoever disables or changes an endpoint takes its row before those of its deliveries, and so does this."""
    chosen = Delivery.objects.filter(pk__in=deliveries)
    theirs = Endpoint.objects.filter(pk__in=chosen.values("endpoint")).select_for_update(no_key=True)
    endpoints = {endpoint.pk: endpoint for endpoint in theirs}
    rows = list(chosen.exclude(state=State.SENDING).defer("body").select_for_update(skip_locked=True))
    for row in rows:
        row.endpoint = endpoints[row.endpoint_id]
    ready = [row for row in rows if row.endpoint.is_enabled]
    _make_due(ready, now)
    return Redelivered(len(ready), len(rows) - len(ready), len(deliveries) - len(rows))


def _make_due(deliveries: Sequence[Delivery], now: datetime) -> None:
    """Rows that are the caller's, with their endpoints."""
    chosen = Delivery.objects.filter(pk__in=[delivery.pk for delivery in deliveries])
    chosen.update(state=State.PENDING, tries=0, due_at=now, finished_at=None)
    moved = defaultdict[tuple[str, str], list[int]](list)
    for delivery in deliveries:
        url = delivery.endpoint.url or delivery.url
        address = url, destination_of(url)
        if address != (delivery.url, delivery.destination):
            moved[address].append(delivery.pk)
    for (url, destination), keys in moved.items():
        Delivery.objects.filter(pk__in=keys).update(url=url, destination=destination)
