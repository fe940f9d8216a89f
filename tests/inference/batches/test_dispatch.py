"""Who is sent for a batch, and when nobody is waited for any longer."""

from datetime import datetime, timedelta

import pytest

from inference.batches import dispatch, leases
from inference.batches.dispatch import LOST_AFTER
from inference.batches.models import Batch
from inference.batches.outcomes import FINISH
from inference.config.celery import send, waiting
from tests.inference.batches.conftest import NOW, MakeBatch

pytestmark = pytest.mark.django_db


class Workers:
    """A broker, and somebody who may take what it does not bring."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.taken: list[int] = []
        self.has_broker = True
        self.is_free = True
        self.waiting = 0

    def send(self, task: str, *, batch_pk: int) -> bool:
        if self.has_broker:
            self.sent.append(batch_pk)
        return self.has_broker

    def take(self, batch_pk: int) -> bool:
        if self.is_free:
            self.taken.append(batch_pk)
        return self.is_free

    def resend(self, now: datetime = NOW) -> tuple[list[int], list[int]]:
        """Those sent for and those taken, this time."""
        self.sent, self.taken = [], []
        dispatch.resend(now=now, take=self.take)
        return self.sent, self.taken


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    workers = Workers()
    monkeypatch.setattr(dispatch, "send", workers.send)
    monkeypatch.setattr(dispatch, "waiting", lambda: workers.waiting)
    return workers


def test_a_batch_is_sent_for_once(make_batch: MakeBatch, workers: Workers):
    batch = make_batch()

    assert workers.resend() == ([batch.pk], [])
    assert workers.resend(NOW + LOST_AFTER / 2) == ([], [])


def test_one_whose_message_nobody_took_is_taken_by_who_finds_that(make_batch: MakeBatch, workers: Workers):
    batch = make_batch()
    workers.resend()

    assert workers.resend(NOW + LOST_AFTER) == ([], [batch.pk])


def test_one_that_nobody_can_take_is_sent_for_again(make_batch: MakeBatch, workers: Workers):
    batch = make_batch()
    workers.resend()
    workers.is_free = False

    assert workers.resend(NOW + LOST_AFTER) == ([batch.pk], [])


def test_what_only_waits_its_turn_is_not_sent_for_again(make_batch: MakeBatch, workers: Workers):
    first, second, _ = make_batch(), make_batch(), make_batch()
    workers.resend()
    workers.is_free, workers.waiting = False, 3

    assert workers.resend(NOW + LOST_AFTER) == ([], [])

    unsent = make_batch()
    assert workers.resend(NOW + LOST_AFTER) == ([unsent.pk], [])
    workers.waiting = 1  # two are lost
    assert workers.resend(NOW + LOST_AFTER) == ([first.pk, second.pk], [])


def test_messages_that_no_worker_has_taken_are_counted():
    assert waiting() == 0
    assert send(dispatch.RUN, batch_pk=0)
    assert send(FINISH, batch_pk=0)
    assert waiting() == 2


def test_without_a_broker_one_is_taken_and_none_counts_as_sent_for(make_batch: MakeBatch, workers: Workers):
    first, second = make_batch(), make_batch()
    workers.has_broker = False

    assert workers.resend() == ([], [first.pk])
    assert set(Batch.objects.values_list("sent_at", flat=True)) == {None}

    workers.has_broker = True
    assert workers.resend() == ([first.pk, second.pk], [])


def test_nobody_is_sent_for_one_that_is_worked_on_rests_or_has_ended(make_batch: MakeBatch, workers: Workers):
    worked_on, resting, ended = make_batch(), make_batch(), make_batch()
    leases.open_lease(batch_pk=worked_on.pk, worker="w", now=NOW)
    Batch.objects.filter(pk=resting.pk).update(resume_at=NOW + timedelta(seconds=1))
    Batch.objects.filter(pk=ended.pk).update(status=Batch.Status.CANCELLED, ended_at=NOW)

    assert workers.resend() == ([], [])
    assert workers.resend(NOW + leases.LASTS) == ([worked_on.pk, resting.pk], [])
