"""Row B7: many workers and sweepers at one batch, each in a thread of its own with a database connection of its own."""

import threading
import uuid
from collections import Counter
from pathlib import Path

import pytest
from django.db import connection, connections
from django.utils import timezone
from pytest_django import Settings

from inference.batches import sweeping
from inference.batches.models import Batch, BatchRequest, BatchResult, Lease
from inference.batches.runner import run_batch
from shared.accounts.models import User
from tests.inference.batches.conftest import MakeBatch
from tests.inference.served import ServedStoa

pytestmark = pytest.mark.django_db(transaction=True)


def work(batch: Batch, number: int, ending: threading.Event) -> None:
    """As often as a worker would be sent."""
    try:
        while not ending.is_set() and Batch.objects.filter(pk=batch.pk, ended_at=None).exists():
            connection.close()
            run_batch(batch_pk=batch.pk, worker=f"worker-{number}", ending=ending)
            ending.wait(0.05)
    finally:
        connections.close_all()


def sweep(ending: threading.Event, told: Counter[bool]) -> None:
    owner = uuid.uuid4()
    try:
        while not ending.wait(0.05):
            told[sweeping.sweep(now=timezone.now(), take=lambda batch_pk: False, owner=owner)] += 1
    finally:
        connections.close_all()


@pytest.mark.timeout(3600)
def test_b7_each_request_is_claimed_once_however_many_claim(
    stoa: ServedStoa,
    settings: Settings,
    make_batch: MakeBatch,
    user: User,
    whole: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("inference.batches.dispatch.send", lambda task, **ids: True)
    settings.RUN_DIR = Path(stoa.environment["STOA_RUN_DIR"])
    for run in range(100 if whole else 1):
        batch = make_batch(1000 if whole else 200, now=timezone.now())
        ending, swept = threading.Event(), Counter[bool]()
        sweepers = [threading.Thread(target=sweep, args=(ending, swept)) for _ in range(2)]
        workers = [threading.Thread(target=work, args=(batch, number, ending)) for number in range(4)]
        for thread in sweepers + workers:
            thread.start()
        for thread in workers:
            thread.join(300)
        ending.set()
        for thread in sweepers:
            thread.join(60)

        batch.refresh_from_db()
        requests = BatchRequest.objects.filter(batch=batch)
        assert (batch.status, batch.completed) == ("completed", batch.total)
        assert set(requests.values_list("attempts", "status")) == {(1, "completed")}
        assert BatchResult.objects.filter(request__batch=batch).count() == batch.total
        assert not Lease.objects.filter(batch=batch).exists()
        assert swept[True]
        print(f"B7 run {run}: {batch.total} requests executed once each")
