"""Row W6: workers are killed while they send webhooks, and every batch is delivered."""

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

from tests.inference.batches.workers import query_database, running_worker, start_worker, submit_batch
from tests.inference.engine.processes import running_host
from tests.inference.running_server import TALKER_CONFIG, RunningServer, add_model, running_server
from tests.webhook_receivers import ReceivedRequest, Receiver, respond_with, running_receiver

TIMEOUT_SECONDS = 150  # the leases of a batch and a delivery, and a margin

pytestmark = pytest.mark.timeout(3600)


@dataclass
class ReceiverRecord:
    """A receiver's record: message ids by batch, and the batches whose results were not readable on arrival."""

    stoa: RunningServer | None = None
    messages: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unreadable: list[str] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def answer(self, peer: socket.socket, request: ReceivedRequest) -> None:
        assert self.stoa is not None
        data = json.loads(request.body)["data"]
        results = httpx2.get(self.stoa.url + data["results_url"], headers=self.stoa.headers(), timeout=60).json()
        if [result["status"] for result in results["results"]] != ["completed"] * data["total"]:
            self.unreadable.append(data["batch_id"])
        self.messages[data["batch_id"]].append(request.headers["webhook-id"])
        self.arrived.release()
        time.sleep(random.choice([0, 0, 0.05]))  # some workers are killed before the response, and some after
        respond_with(204, body=b"")(peer, request)


@pytest.fixture
def record() -> ReceiverRecord:
    return ReceiverRecord()


@pytest.fixture
def receiver(record: ReceiverRecord) -> Iterator[Receiver]:
    with running_receiver(record.answer) as receiver:
        yield receiver


@pytest.fixture
def own_stoa(record: ReceiverRecord, receiver: Receiver) -> Iterator[RunningServer]:
    """Yield a separate server that may send to the receiver."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        models = Path(home) / "models"
        add_model(models, "talker", dict(TALKER_CONFIG))
        allow = {"STOA_WEBHOOK_ALLOW": receiver.authority}
        with running_server(Path(home), host.run_dir, models, load=["talker"], extra=allow) as stoa:
            record.stoa = stoa
            yield stoa


def test_w6_killed_workers_deliver_every_batch_and_duplicates_share_an_id(
    own_stoa: RunningServer, record: ReceiverRecord, receiver: Receiver, whole: bool
):
    count, kills = (100, 20) if whole else (4, 1)
    batches = [submit_batch(own_stoa, "one", "two", webhook_url=receiver.url) for _ in range(count)]
    for _ in range(kills):
        worker = start_worker(own_stoa.environment, own_stoa.log.with_name("worker.log"))
        for _ in range(random.randint(1, max(1, count // kills))):
            if not record.arrived.acquire(timeout=TIMEOUT_SECONDS):
                break
        time.sleep(random.choice([0, 0, 0.01, 0.03]))
        worker.kill()
    with running_worker(own_stoa):
        wait_until_delivered(own_stoa, record, batches)

    assert record.unreadable == []
    assert {batch: len(set(record.messages[batch])) for batch in batches} == dict.fromkeys(batches, 1)
    assert set(record.messages) == set(batches)
    print(f"{count} batches, {kills} kills, {sum(map(len, record.messages.values()))} messages")


def test_b8_a_worker_that_shuts_down_releases_its_delivery(
    own_stoa: RunningServer, record: ReceiverRecord, receiver: Receiver
):
    submit_batch(own_stoa, "one", webhook_url=receiver.url)
    worker = start_worker(own_stoa.environment, own_stoa.log.with_name("worker.log"))
    assert record.arrived.acquire(timeout=TIMEOUT_SECONDS)

    assert worker.end() == 0
    with running_worker(own_stoa):
        wait_until_delivered(own_stoa, record, list(record.messages))


def wait_until_delivered(stoa: RunningServer, record: ReceiverRecord, batches: list[str]) -> None:
    """Wait until every delivery is recorded as delivered."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    query = "SELECT count(*) FROM inference_webhooks_delivery WHERE state = 'delivered'"
    while query_database(stoa, query) != [len(batches)]:
        assert time.monotonic() < deadline, (
            query_database(stoa, "SELECT state FROM inference_webhooks_delivery"),
            record,
        )
        time.sleep(0.2)
