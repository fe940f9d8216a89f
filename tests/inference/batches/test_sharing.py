"""Row B7: many workers and sweepers at one batch, each in a thread of its own with a database connection of its own."""

import threading
import uuid
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone
from pytest_django import Settings

from inference.batches import leases, outcomes, sweeping
from inference.batches.models import Batch, BatchRequest, BatchResult, Lease
from inference.batches.runner import run_batch
from shared.accounts.models import User
from tests.inference.batches.conftest import NOW, MakeBatch
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


def sweep(ending: threading.Event, told: Counter[bool], owner: uuid.UUID) -> None:
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


def test_who_claims_what_ran_in_a_crash_and_who_sweeps_do_not_wait_for_each_other(
    make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("inference.batches.dispatch.send", lambda task, **ids: True)
    batch = make_batch(1)

    def lease_of(worker: str) -> uuid.UUID:
        lease_id = leases.open_lease(batch_pk=batch.pk, worker=worker, now=NOW)
        assert lease_id is not None
        return lease_id

    leases.claim(lease_id=lease_of("dead"), batch_pk=batch.pk, most=1)
    outcomes.reclaim(now=NOW + leases.LASTS)
    late, raised = lease_of("late"), []

    def claim() -> None:
        try:
            leases.claim_lonely(lease_id=late, batch_pk=batch.pk, model_id=batch.model_id)
        except Exception as error:
            raised.append(error)
        finally:
            connections.close_all()

    claiming = threading.Thread(target=claim)
    with transaction.atomic():
        Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)  # first, as whoever writes takes it
        claiming.start()
        claiming.join(1)
        outcomes.reclaim(now=NOW + leases.LASTS + timedelta(seconds=1))
    claiming.join()

    assert raised == []
    assert BatchRequest.objects.get().status == BatchRequest.Status.PENDING
    assert not Lease.objects.exists()


@pytest.mark.parametrize("closes", [False, True])
def test_who_hands_requests_back_and_who_changes_their_batch_do_not_wait_for_each_other(
    make_batch: MakeBatch, closes: bool
):
    batch = make_batch(2)
    lease_id = leases.open_lease(batch_pk=batch.pk, worker="w", now=NOW)
    assert lease_id is not None
    first, second = (one.pk for one in leases.claim(lease_id=lease_id, batch_pk=batch.pk, most=2))
    raised: list[Exception] = []

    def hand_back() -> None:
        try:
            if closes:
                leases.close_lease(lease_id=lease_id, batch_pk=batch.pk)
            else:
                leases.hand_back(lease_id=lease_id, batch_pk=batch.pk, requests=[first, second])
        except Exception as error:
            raised.append(error)
        finally:
            connections.close_all()

    handing_back = threading.Thread(target=hand_back)
    with transaction.atomic():
        Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
        BatchRequest.objects.filter(pk=second).update(status="cancelled", lease=None)
        handing_back.start()
        handing_back.join(1)
        BatchRequest.objects.filter(pk=first).update(status="cancelled", lease=None)
    handing_back.join()

    assert raised == []
    assert set(BatchRequest.objects.values_list("status", flat=True)) == {"cancelled"}
