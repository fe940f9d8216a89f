"""The thread of a worker that sends webhooks, and several of them at once."""

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from inference.webhooks import sender as sending
from inference.webhooks.delivery import deliver_due
from inference.webhooks.models import Delivery
from inference.webhooks.sender import Sender
from tests.inference.webhooks.conftest import make_user
from tests.inference.webhooks.receivers import Answer, Receiver, answering
from tests.inference.webhooks.sending import announced

pytestmark = pytest.mark.timeout(300)


@pytest.mark.django_db(transaction=True)
def test_several_senders_share_what_is_due_and_send_nothing_twice(receive: Callable[[Answer], Receiver]):
    receivers = [receive(answering(200)) for _ in range(4)]
    user = make_user("owner")
    for number in range(60):
        announced(user, receivers[number % 4].url)
    arrived: list[int] = []

    def send() -> None:
        try:
            arrived.append(deliver_due())
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    ids = Counter(request.headers["webhook-id"] for receiver in receivers for request in receiver.received)
    assert ids == dict.fromkeys(Delivery.objects.values_list("public_id", flat=True), 1)
    assert len(ids) == 60
    assert sum(arrived) == 60
    assert set(Delivery.objects.values_list("state", "attempts")) == {("delivered", 1)}


@pytest.mark.django_db(transaction=True)
def test_a_sender_sends_what_is_announced_and_ends_when_it_is_told_to(receive: Callable[[Answer], Receiver]):
    receiver, ending = receive(answering(200)), threading.Event()
    sender = Sender(ending)
    sender.start()
    (delivery,) = announced(make_user("owner"), receiver.url)
    wait_until(lambda: Delivery.objects.filter(pk=delivery.pk, state="delivered").exists())
    ending.set()
    sender.join()
    announced(delivery.endpoint.user, receiver.url)
    time.sleep(2 * sending.LOOKS_EVERY_S)

    assert len(receiver.received) == 1


def test_a_sender_outlives_a_database_that_was_away(monkeypatch: pytest.MonkeyPatch):
    looks, ending = [], threading.Event()

    def look(*, stopping: threading.Event) -> int:
        looks.append(timezone.now())
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(sending, "deliver_due", look)
    sender = Sender(ending)
    sender.start()
    wait_until(lambda: len(looks) > 2)
    ending.set()
    sender.join()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
