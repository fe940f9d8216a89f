"""Deliveries side by side: several senders, many receivers, and the places that each may hold."""

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread

import pytest
from django.utils import timezone

from inference.webhooks import delivery as delivering
from inference.webhooks.delivery import deliver_due, take
from inference.webhooks.models import Attempt, Delivery
from shared.accounts.models import User
from tests.inference.webhooks.conftest import make_user
from tests.inference.webhooks.receivers import (
    Answer,
    Receiver,
    answering,
)
from tests.inference.webhooks.sending import announced, deliver_at, ledger

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
Receive = Callable[[Answer], Receiver]
State = Delivery.State


def test_two_senders_never_take_the_same_delivery(user: User):
    for number in range(10):
        announced(user, f"https://host{number}.example.com/")
    now = timezone.now()
    first = take(limit=6, now=now)
    second = take(limit=100, now=now)

    assert len(first) == 6
    assert len(second) == 4
    assert len({parcel.delivery_id for parcel in (*first, *second)}) == 10
    assert take(limit=100, now=now) == []


def test_what_a_dead_sender_had_taken_is_sent_by_another_with_the_same_id(user: User, receive: Receive):
    receiver = receive(answering(200))
    (delivery,) = announced(user, receiver.url)
    now = timezone.now()
    assert len(take(limit=10, now=now)) == 1

    assert deliver_at(now + timedelta(seconds=29)) == 0
    assert deliver_at(now + timedelta(seconds=31)) == 1
    assert receiver.received[0].headers["webhook-id"] == delivery.public_id
    assert ledger(delivery) == [(2, 200, "")]


def test_a_sender_that_was_given_up_for_dead_changes_nothing_any_more(user: User):
    (delivery,) = announced(user, "https://hooks.example.com/")
    now = timezone.now()
    (slow,) = take(limit=1, now=now)
    (quick,) = take(limit=1, now=now + timedelta(minutes=1))
    arrived = delivering.Outcome(started_at=now, duration_ms=5, status=200)
    delivering.settle(parcel=quick, outcome=arrived, now=now)
    failed = delivering.Outcome(started_at=now, duration_ms=5, status=500, failure="status")
    delivering.settle(parcel=slow, outcome=failed, now=now)

    delivery.refresh_from_db()
    assert delivery.state == State.DELIVERED
    assert ledger(delivery) == [(1, 500, "status"), (2, 200, "")]


def test_a_sender_that_is_told_to_stop_gives_back_what_is_on_its_way(user: User, receive: Receive):
    arrived, stopping = Event(), Event()

    def holding(peer: object, request: object) -> None:
        arrived.set()
        time.sleep(30)

    (delivery,) = announced(user, receive(holding).url)
    Thread(target=lambda: (arrived.wait(60), stopping.set()), daemon=True).start()
    assert deliver_due(stopping=stopping) == 0

    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries) == (State.PENDING, 0)
    assert delivery.due_at is not None
    assert delivery.due_at <= timezone.now()
    assert ledger(delivery) == []


def test_w4_slow_receivers_hold_few_places_and_delay_no_others(user: User, receive: Receive):
    """A hundred messages to receivers that never answer are due before those to a good one."""
    others = make_user("other")
    slow = [receive(lambda peer, request: time.sleep(40)) for _ in range(3)]
    good = receive(answering(200))
    for number in range(99):
        announced(user, slow[number % 3].url)
    told = [announced(others, good.url)[0] for _ in range(20)]
    begun = timezone.now()
    parcels = take(limit=delivering.AT_ONCE, now=begun)

    assert sum(parcel.url == good.url for parcel in parcels) == delivering.PER_DESTINATION
    assert len(parcels) == 4 * delivering.PER_DESTINATION
    for parcel in parcels:
        delivering.give_back(parcel=parcel, now=begun)
    stopping = Event()
    sender = Thread(target=lambda: (wait_until(lambda: len(good.received) == 20), stopping.set()))
    sender.start()
    deliver_due(stopping=stopping)
    sender.join()

    assert len(good.received) == 20
    ends = Attempt.objects.filter(delivery__in=told)
    assert [attempt.failure for attempt in ends] == [""] * 20
    assert Attempt.objects.exclude(delivery__in=told).count() == 0  # the slow ones were still being waited for


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_user_with_many_destinations_has_a_share_of_the_places(user: User):
    for number in range(40):
        announced(user, f"https://host{number}.example.com/")
    announced(make_user("other"), "https://hooks.example.com/")
    parcels = take(limit=delivering.AT_ONCE, now=timezone.now())

    assert len(parcels) == delivering.PER_USER + 1
    assert parcels[-1].url == "https://hooks.example.com/"


def test_who_fills_a_destination_delays_no_other_user_of_it(user: User):
    for number in range(40):
        announced(user, f"https://hooks.example.com/{number}")
    announced(make_user("other"), "https://hooks.example.com/theirs")
    now = timezone.now()
    parcels = take(limit=delivering.AT_ONCE, now=now)

    assert len(parcels) == delivering.PER_DESTINATION + 1
    assert parcels[-1].url == "https://hooks.example.com/theirs"
    assert take(limit=delivering.AT_ONCE, now=now) == []


def test_all_users_together_hold_a_share_of_the_places_at_one_destination(db: None):
    for number in range(6):
        one = make_user(f"user{number}")
        for place in range(5):
            announced(one, f"https://hooks.example.com/{place}")

    assert len(take(limit=delivering.AT_ONCE, now=timezone.now())) == delivering.PER_DESTINATION_OF_ALL
    assert take(limit=delivering.AT_ONCE, now=timezone.now()) == []
