"""Row B7: concurrent workers and sweepers on one batch, each in a thread with its own database connection."""

import threading
import uuid
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch, BatchRequest, BatchResult, Lease
from inference.batches.worker import leases, recording, sweeper
from inference.batches.worker.runner import run_batch
from shared.accounts.models import User
from tests.inference.batches.conftest import NOW, MakeBatch
from tests.inference.running_server import RunningServer

pytestmark = pytest.mark.django_db(transaction=True)


def work(batch: Batch, number: int, ending: threading.Event) -> None:
    """Run the batch again and again, as a worker that receives messages."""
    try:
        while not ending.is_set() and Batch.objects.filter(pk=batch.pk, ended_at=None).exists():
            connection.close()
            run_batch(batch_pk=batch.pk, worker=f"worker-{number}", ending=ending)
            ending.wait(0.05)
    finally:
        connections.close_all()


def sweep(ending: threading.Event, results: Counter[bool], owner: uuid.UUID) -> None:
    try:
        while not ending.wait(0.05):
            results[sweeper.sweep(now=timezone.now(), take=lambda batch_pk: False, owner=owner)] += 1
    finally:
        connections.close_all()


@pytest.mark.timeout(3600)
def test_b7_concurrent_workers_execute_each_request_once(
    stoa: RunningServer,
    settings: Settings,
    make_batch: MakeBatch,
    user: User,
    whole: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("inference.batches.dispatch.send", lambda task, **ids: True)
    settings.RUN_DIR = Path(stoa.environment["STOA_RUN_DIR"])
    owners = uuid.uuid4(), uuid.uuid4()
    for run in range(100 if whole else 1):
        batch = make_batch(1000 if whole else 200, now=timezone.now(), max_tokens=1)
        ending, swept = threading.Event(), Counter[bool]()
        sweepers = [threading.Thread(target=sweep, args=(ending, swept, owner)) for owner in owners]
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


def test_claiming_an_isolated_request_does_not_deadlock_with_the_sweeper(
    make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("inference.batches.dispatch.send", lambda task, **ids: True)
    batch = make_batch(1)

    def lease_of(worker: str) -> uuid.UUID:
        lease_id = leases.acquire_lease(batch_pk=batch.pk, worker=worker, now=NOW)
        assert lease_id is not None
        return lease_id

    leases.claim_requests(lease_id=lease_of("dead"), batch_pk=batch.pk, limit=1)
    recording.reclaim_expired_leases(now=NOW + leases.LEASE_DURATION)
    late, raised = lease_of("late"), []

    def claim() -> None:
        try:
            leases.claim_isolated_request(lease_id=late, batch_pk=batch.pk, model_id=batch.model_id)
        except Exception as error:
            raised.append(error)
        finally:
            connections.close_all()

    claiming = threading.Thread(target=claim)
    with transaction.atomic():
        Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)  # every writer locks the batch first
        claiming.start()
        claiming.join(1)
        recording.reclaim_expired_leases(now=NOW + leases.LEASE_DURATION + timedelta(seconds=1))
    claiming.join()

    assert raised == []
    assert BatchRequest.objects.get().status == BatchRequest.Status.PENDING
    assert not Lease.objects.exists()


@pytest.mark.parametrize("releases", [False, True])
def test_requeueing_does_not_deadlock_with_changes_of_the_batch(make_batch: MakeBatch, releases: bool):
    batch = make_batch(2)
    lease_id = leases.acquire_lease(batch_pk=batch.pk, worker="w", now=NOW)
    assert lease_id is not None
    first, second = (one.pk for one in leases.claim_requests(lease_id=lease_id, batch_pk=batch.pk, limit=2))
    raised: list[Exception] = []

    def requeue() -> None:
        try:
            if releases:
                leases.release_lease(lease_id=lease_id, batch_pk=batch.pk)
            else:
                leases.requeue_requests(lease_id=lease_id, batch_pk=batch.pk, requests=[first, second])
        except Exception as error:
            raised.append(error)
        finally:
            connections.close_all()

    requeueing = threading.Thread(target=requeue)
    with transaction.atomic():
        Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
        BatchRequest.objects.filter(pk=second).update(status="cancelled", lease=None)
        requeueing.start()
        requeueing.join(1)
        BatchRequest.objects.filter(pk=first).update(status="cancelled", lease=None)
    requeueing.join()

    assert raised == []
    assert set(BatchRequest.objects.values_list("status", flat=True)) == {"cancelled"}
