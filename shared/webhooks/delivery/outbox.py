"""The outbox: claim due deliveries, send them, and record the attempts. Delivery is at least once, with the same id.

A worker claims a delivery for LEASE_DURATION; after that another worker may send it. Attempts run in `Transport`'s
thread, and database access in this one: neither waits for the other. Limits for each user and destination keep a slow
receiver from delaying the others.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from shared.encryption import DecryptionFailed, decrypt
from shared.observability import metrics
from shared.webhooks.delivery.retries import retry_delay
from shared.webhooks.delivery.transport import ATTEMPT_TIMEOUT_SECONDS, AttemptOutcome, DeliveryRequest, Transport
from shared.webhooks.destinations import Resolver, resolve
from shared.webhooks.models import Attempt, Delivery, DeliveryState, Endpoint
from shared.webhooks.services import disable_endpoints
from shared.webhooks.signing import signature_headers

ATTEMPTS = metrics.Counter("stoa_webhook_attempts_total", "Attempts at webhooks, by what became of them.", "outcome")
ATTEMPT_SECONDS = metrics.Histogram("stoa_webhook_attempt_duration_seconds", "How long attempts at webhooks took.")

# Limits of concurrent attempts. The first is of one process, the others of all processes.
MAX_IN_FLIGHT = 128
MAX_PER_USER_AND_DESTINATION = 4
MAX_PER_DESTINATION = 16
MAX_PER_USER = 16

MAX_CANDIDATES = 1000
LEASE_DURATION = timedelta(seconds=2 * ATTEMPT_TIMEOUT_SECONDS)
POLL_INTERVAL_SECONDS = 0.5
MAX_DELETED_PER_RUN = 500
HTTP_410_GONE = 410

logger = structlog.get_logger("stoa.webhooks")


def deliver_due(
    *, clock: Callable[[], datetime] = timezone.now, stopping: Event | None = None, resolve: Resolver = resolve
) -> int:
    """Send what is due, and what becomes due meanwhile. Return the number of successful attempts.

    Any number of processes and machines may run it at once. stopping: once set, no attempt starts, and running ones are
    released.
    """
    delivered, in_flight = 0, dict[Future[AttemptOutcome], DeliveryRequest]()
    if not Delivery.objects.due(clock()).exists():
        return 0
    with Transport(allowlist=settings.WEBHOOK_ALLOW, resolve=resolve) as transport:
        while not (stopping and stopping.is_set()):
            for request in claim_due(limit=MAX_IN_FLIGHT - len(in_flight), now=clock()):
                in_flight[transport.send(request)] = request
            if not in_flight:
                break
            for attempt in wait(in_flight, POLL_INTERVAL_SECONDS, FIRST_COMPLETED).done:
                delivered += record_attempt(request=in_flight.pop(attempt), outcome=attempt.result(), now=clock())
    for attempt, request in in_flight.items():  # all have ended with the transport
        if attempt.cancelled():
            release(request=request, now=clock())
        else:
            delivered += record_attempt(request=request, outcome=attempt.result(), now=clock())
    return delivered


def claim_due(*, limit: int, now: datetime) -> list[DeliveryRequest]:
    """Claim due deliveries for LEASE_DURATION, and return the signed requests to send."""
    if limit <= 0 or not Delivery.objects.due(now).exists():
        return []
    with transaction.atomic():
        due = Delivery.objects.due(now).filter(pk__in=_select_fairly(limit, now)).order_by("due_at", "pk")
        locked = due.select_related("endpoint__user").select_for_update(skip_locked=True, of=("self",))
        requests = [_start_attempt(delivery, now) for delivery in locked]
    return [request for request in requests if request]


def record_attempt(*, request: DeliveryRequest, outcome: AttemptOutcome, now: datetime) -> bool:
    """Record an attempt and schedule a retry if needed. Return whether it was delivered.

    Disables an endpoint whose current URL answers 410.
    """
    with transaction.atomic():
        deliveries = Delivery.objects.filter(pk=request.delivery_id).select_related("endpoint")
        delivery = deliveries.select_for_update(of=("self",)).first()
        if delivery is None:  # deleted with its endpoint
            return False
        Attempt.objects.create(
            delivery=delivery,
            number=request.attempt,
            started_at=outcome.started_at,
            duration_ms=outcome.duration_ms,
            status=outcome.status,
            failure=outcome.failure,
        )
        is_gone = outcome.status == HTTP_410_GONE
        if delivery.attempts == request.attempt:  # otherwise the lease expired and another worker has claimed it
            _update_state(delivery, outcome, is_gone=is_gone and request.url == delivery.url, now=now)
    ATTEMPTS.add(1, outcome.failure or "delivered")
    ATTEMPT_SECONDS.observe(outcome.duration_ms / 1000)
    if is_gone and request.url == delivery.endpoint.url:  # a 410 of a former URL says nothing about this one
        disable_endpoints(endpoints=[delivery.endpoint_id], by=Endpoint.DisabledBy.RECEIVER, now=now)
    if outcome.failure:
        logger.info(
            "webhook_attempt_failed", delivery=delivery.public_id, reason=outcome.failure, status=outcome.status
        )
    return not outcome.failure


def release(*, request: DeliveryRequest, now: datetime) -> None:
    """Make a claimed delivery due at once for another worker. The cancelled attempt does not count as a try."""
    claimed = Delivery.objects.filter(pk=request.delivery_id, attempts=request.attempt, state=DeliveryState.SENDING)
    claimed.update(state=DeliveryState.PENDING, due_at=now, tries=request.tries - 1)


def delete_old_deliveries(*, now: datetime) -> int:
    """Delete up to MAX_DELETED_PER_RUN deliveries whose retention is over. Return their number."""
    old = Delivery.objects.filter(finished_at__lte=now - settings.WEBHOOK_RETENTION).order_by("finished_at")
    keys = list(old.values_list("pk", flat=True)[:MAX_DELETED_PER_RUN])
    if keys:
        Delivery.objects.filter(pk__in=keys).delete()
    return len(keys)


def _select_fairly(limit: int, now: datetime) -> list[int]:
    """Return the keys of the deliveries that are due the longest, within the limits of users and destinations."""
    usage = _InFlightUsage(Delivery.objects.in_flight(now).values_list("destination", "endpoint__user"))
    due = Delivery.objects.due(now).exclude(destination__in=usage.full_destinations)
    due = due.exclude(endpoint__user__in=usage.full_users).first_per_destination(MAX_PER_USER_AND_DESTINATION)
    candidates = due.order_by("due_at", "pk").values_list("pk", "destination", "endpoint__user")
    selected: list[int] = []
    for pk, destination, user in candidates[:MAX_CANDIDATES]:
        if len(selected) < limit and usage.try_add(destination, user):
            selected.append(pk)
    return selected


class _InFlightUsage:
    """Counts of deliveries in flight by user and destination, compared with their limits."""

    def __init__(self, in_flight: Iterable[tuple[str, int]]) -> None:
        self._by_pair = Counter(in_flight)
        self._by_destination, self._by_user = Counter[str](), Counter[int]()
        for (destination, user), count in self._by_pair.items():
            self._by_destination[destination] += count
            self._by_user[user] += count

    @property
    def full_destinations(self) -> list[str]:
        return [destination for destination, count in self._by_destination.items() if count >= MAX_PER_DESTINATION]

    @property
    def full_users(self) -> list[int]:
        return [user for user, count in self._by_user.items() if count >= MAX_PER_USER]

    def try_add(self, destination: str, user: int) -> bool:
        """Count one more delivery, and return whether the limits allow it."""
        if (
            self._by_pair[destination, user] >= MAX_PER_USER_AND_DESTINATION
            or self._by_destination[destination] >= MAX_PER_DESTINATION
            or self._by_user[user] >= MAX_PER_USER
        ):
            return False
        self._by_pair[destination, user] += 1
        self._by_destination[destination] += 1
        self._by_user[user] += 1
        return True


def _start_attempt(delivery: Delivery, now: datetime) -> DeliveryRequest | None:
    """Claim a locked delivery and sign it. Return None if it must not be sent; that is then recorded."""
    endpoint = delivery.endpoint
    user = endpoint.user
    if not (endpoint.is_enabled and user.is_active and user.role in settings.WEBHOOK_ROLES):
        _finish(delivery, DeliveryState.CANCELLED, now)
        return None
    delivery.state, delivery.due_at = DeliveryState.SENDING, now + LEASE_DURATION
    delivery.attempts, delivery.tries = delivery.attempts + 1, delivery.tries + 1
    delivery.save(update_fields=["state", "due_at", "attempts", "tries"])
    headers: dict[str, str] | None = None
    with suppress(DecryptionFailed):
        secrets = _signing_secrets(endpoint, now)
        headers = signature_headers(message_id=delivery.public_id, body=delivery.body, signing_secrets=secrets, now=now)
    request = DeliveryRequest(
        delivery_id=delivery.pk,
        user_id=user.pk,
        attempt=delivery.attempts,
        tries=delivery.tries,
        url=delivery.url,
        body=delivery.body,
        headers=tuple((headers or {}).items()),
    )
    if headers is not None:
        return request
    outcome = AttemptOutcome(started_at=now, duration_ms=0, failure=Attempt.Failure.SECRET_LOST)
    record_attempt(request=request, outcome=outcome, now=now)
    return None


def _signing_secrets(endpoint: Endpoint, now: datetime) -> list[str]:
    """Return the current secret and, until it expires, the previous one.

    Raises DecryptionFailed for the current one only: the previous one may have been rotated because it is lost.
    """
    secrets = [decrypt(endpoint.secret)]
    if endpoint.previous_secret_until and now < endpoint.previous_secret_until:
        with suppress(DecryptionFailed):
            secrets.append(decrypt(endpoint.previous_secret))
    return secrets


def _update_state(delivery: Delivery, outcome: AttemptOutcome, *, is_gone: bool, now: datetime) -> None:
    """Finish the delivery or schedule a retry. is_gone: its current URL answered 410."""
    delay = retry_delay(delivery.tries, outcome.retry_after)
    if not outcome.failure:
        _finish(delivery, DeliveryState.DELIVERED, now)
    elif not delivery.endpoint.is_enabled:
        _finish(delivery, DeliveryState.CANCELLED, now)
    elif is_gone or delay is None:
        _finish(delivery, DeliveryState.FAILED, now)
    else:
        delivery.state, delivery.due_at = DeliveryState.PENDING, now + delay
        delivery.save(update_fields=["state", "due_at"])


def _finish(delivery: Delivery, state: DeliveryState, now: datetime) -> None:
    delivery.state, delivery.due_at, delivery.finished_at = state, None, now
    delivery.save(update_fields=["state", "due_at", "finished_at"])
