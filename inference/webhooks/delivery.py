"""Everything that is due is sent: `deliver_due`, at least once, with the same id each time.

A delivery is taken for LEASE by whoever sends it; what a dead sender had taken is taken again after that. No network
waits for the database and no database for the network: attempts run in `transport.Network`, and this thread alone reads
and writes. A slow receiver holds a few places, never all.
"""

import queue
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from inference.webhooks.destinations import LookUp, look_up
from inference.webhooks.models import Attempt, Delivery, Endpoint
from inference.webhooks.schedule import wait_after
from inference.webhooks.sealing import SecretLost, unseal
from inference.webhooks.services import disable_endpoint
from inference.webhooks.signing import signature_headers
from inference.webhooks.transport import ATTEMPT_S, Network, Outcome, Parcel
from shared.observability import metrics

ATTEMPTS = metrics.Counter("stoa_webhook_attempts_total", "Attempts at webhooks, by what became of them.", "outcome")
ATTEMPT_SECONDS = metrics.Histogram("stoa_webhook_attempt_duration_seconds", "How long attempts at webhooks took.")

AT_ONCE = 128  # in one process
PER_DESTINATION = 4  # of one user
PER_DESTINATION_OF_ALL = 16
PER_USER = 16
LOOKED_AT = 1000
LEASE = timedelta(seconds=2 * ATTEMPT_S)
LOOKS_EVERY_S = 0.5
FORGOTTEN_AT_ONCE = 500
GONE = 410

State = Delivery.State
logger = structlog.get_logger("stoa.webhooks")


def deliver_due(
    *, clock: Callable[[], datetime] = timezone.now, stopping: Event | None = None, look_up: LookUp = look_up
) -> int:
    """Send what is due, and what comes to be due while something is on its way. Answers how many arrived. Several may
    run at once, on any number of machines. stopping: once it is set nothing more is begun, and what is on its way is
    given back."""
    arrived, sending = 0, set[Parcel]()
    if not Delivery.objects.to_send(clock()).exists():
        return 0
    with Network(allowed=settings.WEBHOOK_ALLOW, look_up=look_up) as network:
        while not (stopping and stopping.is_set()):
            parcels = take(limit=AT_ONCE - len(sending), now=clock())
            for parcel in parcels:
                network.send(parcel)
            sending.update(parcels)
            if not sending:
                break
            for parcel, outcome in _ended(network, LOOKS_EVERY_S):
                sending.discard(parcel)
                arrived += settle(parcel=parcel, outcome=outcome, now=clock())
    for parcel, outcome in _ended(network, 0):
        sending.discard(parcel)
        arrived += settle(parcel=parcel, outcome=outcome, now=clock())
    for parcel in sending:
        give_back(parcel=parcel, now=clock())
    return arrived


def take(*, limit: int, now: datetime) -> list[Parcel]:
    """Deliveries that are due, the caller's to send for LEASE."""
    if limit <= 0 or not Delivery.objects.to_send(now).exists():
        return []
    with transaction.atomic():
        due = Delivery.objects.to_send(now).filter(pk__in=_chosen(limit, now)).order_by("due_at", "pk")
        ours = due.select_related("endpoint__user").select_for_update(skip_locked=True, of=("self",))
        parcels = [_begin(delivery, now) for delivery in ours]
    return [parcel for parcel in parcels if parcel]


def settle(*, parcel: Parcel, outcome: Outcome, now: datetime) -> bool:
    """Writes down what became of an attempt, and when the next is due if there is one. Answers whether it arrived."""
    with transaction.atomic():
        deliveries = Delivery.objects.filter(pk=parcel.delivery_id).select_related("endpoint")
        delivery = deliveries.select_for_update(of=("self",)).first()
        if delivery is None:  # deleted with its endpoint
            return False
        Attempt.objects.create(
            delivery=delivery,
            number=parcel.attempt,
            started_at=outcome.started_at,
            duration_ms=outcome.duration_ms,
            status=outcome.status,
            failure=outcome.failure,
        )
        if delivery.attempts == parcel.attempt:  # else another took it over, as this took too long
            _conclude(delivery, outcome, is_gone=outcome.status == GONE and parcel.url == delivery.url, now=now)
    ATTEMPTS.add(1, outcome.failure or "delivered")
    ATTEMPT_SECONDS.observe(outcome.duration_ms / 1000)
    if outcome.status == GONE and parcel.url == delivery.endpoint.url:  # of one address it says nothing of another
        disable_endpoint(endpoint=delivery.endpoint, by=Endpoint.DisabledBy.RECEIVER, now=now)
    if outcome.failure:
        logger.info("webhook_not_delivered", delivery=delivery.public_id, reason=outcome.failure, status=outcome.status)
    return not outcome.failure


def give_back(*, parcel: Parcel, now: datetime) -> None:
    """Somebody else is to send it, at once: this attempt was broken off and does not count."""
    ours = Delivery.objects.filter(pk=parcel.delivery_id, attempts=parcel.attempt, state=State.SENDING)
    ours.update(state=State.PENDING, due_at=now, tries=parcel.tries - 1)


def forget_old(*, now: datetime) -> int:
    """Deletes some of what ended long ago. Answers how much."""
    old = Delivery.objects.filter(finished_at__lte=now - settings.BATCH_KEPT_FOR).order_by("finished_at")
    ids = list(old.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    if ids:
        Delivery.objects.filter(pk__in=ids).delete()
    return len(ids)


def _ended(network: Network, wait_s: float) -> Iterator[tuple[Parcel, Outcome]]:
    """What has ended, once something has or the wait is over."""
    with suppress(queue.Empty):
        yield network.finished.get(timeout=wait_s) if wait_s else network.finished.get_nowait()
        while True:
            yield network.finished.get_nowait()


def _chosen(limit: int, now: datetime) -> list[int]:
    """The longest due, but few for each destination and each user."""
    places = _Places(Delivery.objects.in_flight(now).values_list("destination", "endpoint__user"))
    due = Delivery.objects.to_send(now).exclude(destination__in=places.full).exclude(endpoint__user__in=places.busy)
    candidates = due.fair(PER_DESTINATION).order_by("due_at", "pk").values_list("pk", "destination", "endpoint__user")
    chosen: list[int] = []
    for pk, destination, user in candidates[:LOOKED_AT]:
        if len(chosen) < limit and places.take(destination, user):
            chosen.append(pk)
    return chosen


class _Places:
    """Who holds places: one user no more than a few for a destination, so that another finds some there too."""

    def __init__(self, sending: Iterable[tuple[str, int]]) -> None:
        self._of_pair = Counter(sending)
        self._to_destination, self._of_user = Counter[str](), Counter[int]()
        for (destination, user), count in self._of_pair.items():
            self._to_destination[destination] += count
            self._of_user[user] += count

    @property
    def full(self) -> list[str]:
        """The destinations to which no more may go."""
        return [destination for destination, held in self._to_destination.items() if held >= PER_DESTINATION_OF_ALL]

    @property
    def busy(self) -> list[int]:
        """The users of whom no more may go."""
        return [user for user, held in self._of_user.items() if held >= PER_USER]

    def take(self, destination: str, user: int) -> bool:
        """Whether there was a place, which is taken now."""
        if (
            self._of_pair[destination, user] >= PER_DESTINATION
            or self._to_destination[destination] >= PER_DESTINATION_OF_ALL
            or self._of_user[user] >= PER_USER
        ):
            return False
        self._of_pair[destination, user] += 1
        self._to_destination[destination] += 1
        self._of_user[user] += 1
        return True


def _begin(delivery: Delivery, now: datetime) -> Parcel | None:
    """None where nothing is to be sent."""
    endpoint = delivery.endpoint
    if not (endpoint.is_enabled and endpoint.user.is_active):
        _finish(delivery, State.CANCELLED, now)
        return None
    delivery.state, delivery.due_at = State.SENDING, now + LEASE
    delivery.attempts, delivery.tries = delivery.attempts + 1, delivery.tries + 1
    delivery.save(update_fields=["state", "due_at", "attempts", "tries"])
    try:
        headers = signature_headers(
            message_id=delivery.public_id, body=delivery.body, signing_secrets=_secrets(endpoint, now), now=now
        )
    except SecretLost:
        lost = Outcome(started_at=now, duration_ms=0, failure=Attempt.Failure.SECRET_LOST)
        settle(parcel=_parcel(delivery, {}), outcome=lost, now=now)
        return None
    return _parcel(delivery, headers)


def _parcel(delivery: Delivery, headers: dict[str, str]) -> Parcel:
    return Parcel(
        delivery_id=delivery.pk,
        user_id=delivery.endpoint.user_id,
        attempt=delivery.attempts,
        tries=delivery.tries,
        url=delivery.url,
        body=delivery.body,
        headers=tuple(headers.items()),
    )


def _secrets(endpoint: Endpoint, now: datetime) -> list[str]:
    """Raises SecretLost where the present one is; one that was rotated because it is lost signs nothing any more."""
    secrets = [unseal(endpoint.secret)]
    if endpoint.previous_secret_until and now < endpoint.previous_secret_until:
        with suppress(SecretLost):
            secrets.append(unseal(endpoint.previous_secret))
    return secrets


def _conclude(delivery: Delivery, outcome: Outcome, *, is_gone: bool, now: datetime) -> None:
    """is_gone: it is never taken at the address that the delivery has now."""
    wait = wait_after(delivery.tries, outcome.asked)
    if not outcome.failure:
        _finish(delivery, State.DELIVERED, now)
    elif not delivery.endpoint.is_enabled:
        _finish(delivery, State.CANCELLED, now)
    elif is_gone or wait is None:
        _finish(delivery, State.FAILED, now)
    else:
        delivery.state, delivery.due_at = State.PENDING, now + wait
        delivery.save(update_fields=["state", "due_at"])


def _finish(delivery: Delivery, state: Delivery.State, now: datetime) -> None:
    delivery.state, delivery.due_at, delivery.finished_at = state, None, now
    delivery.save(update_fields=["state", "due_at", "finished_at"])
