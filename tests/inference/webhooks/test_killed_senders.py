"""Row W6: workers are killed while they send, and everybody is told all the same. Real batches, workers and kills."""

import json
import random
import socket
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from tests.inference.batches.workers import running_worker, start_worker, stored, submit
from tests.inference.engine.processes import running_host
from tests.inference.served import TALKER_CONFIG, ServedStoa, add_model, served_stoa
from tests.inference.webhooks.receivers import Received, Receiver, answering, receiving

LIMIT_S = 150  # a batch's and a delivery's leases, and some patience

pytestmark = pytest.mark.timeout(3600)


@dataclass
class Told:
    """What a receiver was told, by batch: the ids of the messages. `unreadable`: batches whose results were not there
    when they came."""

    stoa: ServedStoa | None = None
    messages: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unreadable: list[str] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def answer(self, peer: socket.socket, request: Received) -> None:
        assert self.stoa is not None
        data = json.loads(request.body)["data"]
        results = httpx2.get(self.stoa.url + data["results_url"], headers=self.stoa.headers(), timeout=60).json()
        if [result["status"] for result in results["results"]] != ["completed"] * data["total"]:
            self.unreadable.append(data["batch_id"])
        self.messages[data["batch_id"]].append(request.headers["webhook-id"])
        self.arrived.release()
        time.sleep(random.choice([0, 0, 0.05]))  # so that some are killed before the answer, and some after
        answering(204, body=b"")(peer, request)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def receiver(told: Told) -> Iterator[Receiver]:
    with receiving(told.answer) as receiver:
        yield receiver


@pytest.fixture
def own_stoa(told: Told, receiver: Receiver) -> Iterator[ServedStoa]:
    """A server of the test's own, that may send to the receiver."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        models = Path(home) / "models"
        add_model(models, "talker", dict(TALKER_CONFIG))
        allow = {"STOA_WEBHOOK_ALLOW": receiver.authority}
        with served_stoa(Path(home), host.run_dir, models, load=["talker"], extra=allow) as stoa:
            told.stoa = stoa
            yield stoa


def test_w6_killed_workers_tell_of_every_batch_and_twice_only_with_one_id(
    own_stoa: ServedStoa, told: Told, receiver: Receiver, whole: bool
):
    count, kills = (100, 20) if whole else (4, 1)
    batches = [submit(own_stoa, "one", "two", webhook_url=receiver.url) for _ in range(count)]
    for _ in range(kills):
        worker = start_worker(own_stoa.environment, own_stoa.log.with_name("worker.log"))
        for _ in range(random.randint(1, max(1, count // kills))):
            if not told.arrived.acquire(timeout=LIMIT_S):
                break
        time.sleep(random.choice([0, 0, 0.01, 0.03]))
        worker.kill()
    with running_worker(own_stoa):
        wait_until_told(own_stoa, told, batches)

    assert told.unreadable == []
    assert {batch: len(set(told.messages[batch])) for batch in batches} == dict.fromkeys(batches, 1)
    assert set(told.messages) == set(batches)
    print(f"{count} batches, {kills} kills, {sum(map(len, told.messages.values()))} messages")


def test_b8_a_worker_that_is_told_to_end_gives_back_what_it_was_sending(
    own_stoa: ServedStoa, told: Told, receiver: Receiver
):
    submit(own_stoa, "one", webhook_url=receiver.url)
    worker = start_worker(own_stoa.environment, own_stoa.log.with_name("worker.log"))
    assert told.arrived.acquire(timeout=LIMIT_S)

    assert worker.end() == 0
    with running_worker(own_stoa):
        wait_until_told(own_stoa, told, list(told.messages))


def wait_until_told(stoa: ServedStoa, told: Told, batches: list[str]) -> None:
    """Until every message is known to have been delivered."""
    deadline = time.monotonic() + LIMIT_S
    query = "SELECT count(*) FROM inference_webhooks_delivery WHERE state = 'delivered'"
    while stored(stoa, query) != [len(batches)]:
        assert time.monotonic() < deadline, (stored(stoa, "SELECT state FROM inference_webhooks_delivery"), told)
        time.sleep(0.2)
