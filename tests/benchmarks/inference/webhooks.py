"""Latency of webhook deliveries beside hostile receivers of another user, with and without those.

The baseline has only well-behaved receivers.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import django
from django.core.management import call_command
from django.utils import timezone

from tests import webhook_receivers as receivers
from tests.benchmarks._table import Comparison, arguments, publish

INTERVAL_SECONDS = 0.05
TIMEOUT_SECONDS = 120
HOSTILE: list[receivers.ResponseWriter] = [
    receivers.drip_headers,
    receivers.flood_body,
    receivers.send_endless_informational,
    receivers.reset_connection,
    receivers.respond_with(500),
    lambda peer, request: time.sleep(40),
]
SEND = """
import threading
import django
django.setup()
from shared.webhooks.tasks import start_delivering
ending = threading.Event()
start_delivering(ending)
input()
ending.set()
"""


@contextlib.contextmanager
def sender() -> Iterator[None]:
    """Run a delivery worker in a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", SEND], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        process.communicate(b"\n", timeout=60)


class RespondingReceiver:
    """A receiver that records the arrival of each message by its number."""

    def __init__(self) -> None:
        self.arrived_at: dict[int, float] = {}

    def answer(self, peer: receivers.socket.socket, request: receivers.ReceivedRequest) -> None:
        self.arrived_at[json.loads(request.body)["data"]["number"]] = time.monotonic()
        receivers.respond_with(200)(peer, request)


def measure_latencies(announce_one: Callable[[int], None], good: RespondingReceiver, numbers: range) -> list[float]:
    """Return the milliseconds from each announcement to its arrival."""
    announced_at = {}
    for number in numbers:
        announced_at[number] = time.monotonic()
        announce_one(number)
        time.sleep(INTERVAL_SECONDS)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(good.arrived_at) < numbers.stop and time.monotonic() < deadline:
        time.sleep(0.05)
    return [1000 * (good.arrived_at[number] - announced_at[number]) for number in numbers]


def main() -> None:
    options = arguments(__doc__ or "")
    count = 100 if options.quick else 600
    good = RespondingReceiver()
    with contextlib.ExitStack() as running, tempfile.TemporaryDirectory(prefix="stoa-bench") as home:
        receiver = running.enter_context(receivers.running_receiver(good.answer))
        hostile = [running.enter_context(receivers.running_receiver(answer)) for answer in HOSTILE]
        allowed = ",".join(each.authority for each in (receiver, *hostile))
        os.environ |= {"STOA_HOME": home, "STOA_WEBHOOK_ALLOW": allowed, "REDIS_URL": "", "STOA_LOG_LEVEL": "ERROR"}
        os.environ["DATABASE_URL"] = f"sqlite:///{home}/stoa.sqlite3"
        os.environ["DJANGO_SETTINGS_MODULE"] = "inference.config.settings.test"
        publish(compare(good, receiver, hostile, count), options.json)


def compare(
    good: RespondingReceiver, receiver: receivers.Receiver, hostile: list[receivers.Receiver], count: int
) -> list[Comparison]:
    django.setup()
    call_command("migrate", verbosity=0)
    from shared.accounts.roles import Role
    from shared.accounts.services import create_user
    from shared.webhooks.services import announce, create_default_endpoint  # after django.setup()

    users = [
        create_user(email=f"{name}@example.com", name=name, password=None, role=Role.STAFF, now=timezone.now())
        for name in ("good", "bad")
    ]

    for user in users:
        create_default_endpoint(user=user, now=timezone.now())

    def announce_one(number: int, user: int = 0, url: str = receiver.url) -> None:
        earlier = timezone.now() - timedelta(seconds=user)  # the hostile deliveries are due earlier
        announce(user=users[user], url=url, event="batch.complete", data={"number": number}, now=earlier)

    with sender():
        measure_latencies(announce_one, good, range(20))
        alone = measure_latencies(announce_one, good, range(20, 20 + count))
        for number in range(300):
            announce_one(number, 1, hostile[number % len(hostile)].url)
        beside = measure_latencies(announce_one, good, range(20 + count, 20 + 2 * count))
    return [
        Comparison("median of a webhook's wait", statistics.median(beside), statistics.median(alone), "ms"),
        Comparison("p95 of a webhook's wait", percentile(beside, 95), percentile(alone, 95), "ms"),
        Comparison("longest wait", max(beside), max(alone), "ms"),
    ]


def percentile(values: list[float], share: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * share // 100)]


if __name__ == "__main__":
    main()
