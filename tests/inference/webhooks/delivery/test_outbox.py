"""The outbox with concurrent workers and many receivers: claims, leases and concurrency limits."""

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread

import pytest
from django.utils import timezone

from shared.accounts.models import User
from shared.webhooks.delivery import outbox as outbox
from shared.webhooks.delivery.outbox import claim_due, deliver_due
from shared.webhooks.models import Attempt, DeliveryState
from tests.inference.webhooks.conftest import make_user
from tests.inference.webhooks.outbox_helpers import announce_event, deliver_at, get_attempts
from tests.webhook_receivers import (
    Receiver,
    ResponseWriter,
    respond_with,
)

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
Receive = Callable[[ResponseWriter], Receiver]


def test_two_workers_never_claim_the_same_delivery(user: User):
    for number in range(10):
        announce_event(user, f"https://host{number}.example.com/")
    now = timezone.now()
    first = claim_due(limit=6, now=now)
    second = claim_due(limit=100, now=now)

    assert len(first) == 6
    assert len(second) == 4
    assert len({request.delivery_id for request in (*first, *second)}) == 10
    assert claim_due(limit=100, now=now) == []


def test_a_dead_workers_delivery_is_sent_again_with_the_same_id(user: User, receive: Receive):
    receiver = receive(respond_with(200))
    (delivery,) = announce_event(user, receiver.url)
    now = timezone.now()
    assert len(claim_due(limit=10, now=now)) == 1

    assert deliver_at(now + timedelta(seconds=29)) == 0
    assert deliver_at(now + timedelta(seconds=31)) == 1
    assert receiver.received[0].headers["webhook-id"] == delivery.public_id
    assert get_attempts(delivery) == [(2, 200, "")]


def test_a_worker_whose_lease_expired_does_not_change_the_delivery(user: User):
    (delivery,) = announce_event(user, "https://hooks.example.com/")
    now = timezone.now()
    (slow,) = claim_due(limit=1, now=now)
    (quick,) = claim_due(limit=1, now=now + timedelta(minutes=1))
    arrived = outbox.AttemptOutcome(started_at=now, duration_ms=5, status=200)
    outbox.record_attempt(request=quick, outcome=arrived, now=now)
    failed = outbox.AttemptOutcome(started_at=now, duration_ms=5, status=500, failure="status")
    outbox.record_attempt(request=slow, outcome=failed, now=now)

    delivery.refresh_from_db()
    assert delivery.state == DeliveryState.DELIVERED
    assert get_attempts(delivery) == [(1, 500, "status"), (2, 200, "")]


def test_a_worker_that_shuts_down_releases_deliveries_in_flight(user: User, receive: Receive):
    arrived, stopping = Event(), Event()

    def holding(peer: object, request: object) -> None:
        arrived.set()
        time.sleep(30)

    (delivery,) = announce_event(user, receive(holding).url)
    Thread(target=lambda: (arrived.wait(60), stopping.set()), daemon=True).start()
    assert deliver_due(stopping=stopping) == 0

    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == (DeliveryState.PENDING, 0)
    assert delivery.due_at is not None
    assert delivery.due_at <= timezone.now()
    assert get_attempts(delivery) == []


def test_w4_slow_receivers_do_not_delay_other_deliveries(user: User, receive: Receive):
    """Make 100 deliveries to receivers that never respond due before those to a good one."""
    others = make_user("other")
    slow = [receive(lambda peer, request: time.sleep(40)) for _ in range(3)]
    good = receive(respond_with(200))
    for number in range(99):
        announce_event(user, slow[number % 3].url)
    deliveries = [announce_event(others, good.url)[0] for _ in range(20)]
    begun = timezone.now()
    requests = claim_due(limit=outbox.MAX_IN_FLIGHT, now=begun)

    assert sum(request.url == good.url for request in requests) == outbox.MAX_PER_USER_AND_DESTINATION
    assert len(requests) == 4 * outbox.MAX_PER_USER_AND_DESTINATION
    for request in requests:
        outbox.release(request=request, now=begun)
    stopping = Event()
    sender = Thread(target=lambda: (wait_until(lambda: len(good.received) == 20), stopping.set()))
    sender.start()
    deliver_due(stopping=stopping)
    sender.join()

    assert len(good.received) == 20
    attempts = Attempt.objects.filter(delivery__in=deliveries)
    assert [attempt.failure for attempt in attempts] == [""] * 20
    assert Attempt.objects.exclude(delivery__in=deliveries).count() == 0  # the slow attempts were still running


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_user_with_many_destinations_has_a_concurrency_limit(user: User):
    for number in range(40):
        announce_event(user, f"https://host{number}.example.com/")
    announce_event(make_user("other"), "https://hooks.example.com/")
    requests = claim_due(limit=outbox.MAX_IN_FLIGHT, now=timezone.now())

    assert len(requests) == outbox.MAX_PER_USER + 1
    assert requests[-1].url == "https://hooks.example.com/"


def test_one_user_does_not_delay_others_at_the_same_destination(user: User):
    for number in range(40):
        announce_event(user, f"https://hooks.example.com/{number}")
    announce_event(make_user("other"), "https://hooks.example.com/theirs")
    now = timezone.now()
    requests = claim_due(limit=outbox.MAX_IN_FLIGHT, now=now)

    assert len(requests) == outbox.MAX_PER_USER_AND_DESTINATION + 1
    assert requests[-1].url == "https://hooks.example.com/theirs"
    assert claim_due(limit=outbox.MAX_IN_FLIGHT, now=now) == []


def test_a_destination_has_a_concurrency_limit_over_all_users(db: None):
    for number in range(6):
        one = make_user(f"user{number}")
        for place in range(5):
            announce_event(one, f"https://hooks.example.com/{place}")

    assert len(claim_due(limit=outbox.MAX_IN_FLIGHT, now=timezone.now())) == outbox.MAX_PER_DESTINATION
    assert claim_due(limit=outbox.MAX_IN_FLIGHT, now=timezone.now()) == []
