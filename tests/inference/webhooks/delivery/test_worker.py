"""The delivery thread of a worker, and several of them at once."""

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from shared.webhooks import tasks
from shared.webhooks.delivery.outbox import deliver_due
from shared.webhooks.models import Delivery
from tests.inference.webhooks.conftest import make_user
from tests.inference.webhooks.outbox_helpers import announce_event
from tests.webhook_receivers import Receiver, ResponseWriter, respond_with

pytestmark = pytest.mark.timeout(300)


@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_send_each_delivery_once(receive: Callable[[ResponseWriter], Receiver]):
    receivers = [receive(respond_with(200)) for _ in range(4)]
    user = make_user("owner")
    for number in range(60):
        announce_event(user, receivers[number % 4].url)
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
def test_a_worker_sends_deliveries_until_it_shuts_down(receive: Callable[[ResponseWriter], Receiver]):
    receiver, ending = receive(respond_with(200)), threading.Event()
    thread = tasks.start_delivering(ending)
    (delivery,) = announce_event(make_user("owner"), receiver.url)
    wait_until(lambda: Delivery.objects.filter(pk=delivery.pk, state="delivered").exists())
    ending.set()
    thread.join()
    announce_event(delivery.endpoint.user, receiver.url)
    time.sleep(2 * tasks.POLL_INTERVAL_SECONDS)

    assert len(receiver.received) == 1


def test_a_worker_survives_database_errors(monkeypatch: pytest.MonkeyPatch):
    looks, ending = [], threading.Event()

    def deliver(*, stopping: threading.Event) -> int:
        looks.append(timezone.now())
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(tasks, "deliver_due", deliver)
    thread = tasks.start_delivering(ending)
    wait_until(lambda: len(looks) > 2)
    ending.set()
    thread.join()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
