"""Dispatch: one message for each batch, sent again or replaced by a local run if it is lost."""

from datetime import datetime, timedelta

import pytest

from inference.batches import dispatch
from inference.batches.dispatch import MESSAGE_LOST_AFTER, WRITE_FILES_TASK
from inference.batches.models import Batch
from inference.batches.worker import leases
from inference.config.celery import send, waiting
from tests.inference.batches.conftest import NOW, MakeBatch

pytestmark = pytest.mark.django_db


class Workers:
    """A fake broker, and a fake sweeper that may take batches."""

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
        """Return the batches that this call sent, and those that it took."""
        self.sent, self.taken = [], []
        dispatch.redispatch(now=now, take=self.take)
        return self.sent, self.taken


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    workers = Workers()
    monkeypatch.setattr(dispatch, "send", workers.send)
    monkeypatch.setattr(dispatch, "waiting", lambda: workers.waiting)
    return workers


def test_a_batch_gets_one_message(make_batch: MakeBatch, workers: Workers):
    batch = make_batch()

    assert workers.resend() == ([batch.pk], [])
    assert workers.resend(NOW + MESSAGE_LOST_AFTER / 2) == ([], [])


def test_the_sweeper_takes_a_batch_whose_message_was_lost(make_batch: MakeBatch, workers: Workers):
    batch = make_batch()
    workers.resend()

    assert workers.resend(NOW + MESSAGE_LOST_AFTER) == ([], [batch.pk])


def test_a_lost_message_is_sent_again_if_the_sweeper_is_busy(make_batch: MakeBatch, workers: Workers):
    batch = make_batch()
    workers.resend()
    workers.is_free = False

    assert workers.resend(NOW + MESSAGE_LOST_AFTER) == ([batch.pk], [])


def test_messages_still_in_the_queue_are_not_sent_again(make_batch: MakeBatch, workers: Workers):
    first, second, _ = make_batch(), make_batch(), make_batch()
    workers.resend()
    workers.is_free, workers.waiting = False, 3

    assert workers.resend(NOW + MESSAGE_LOST_AFTER) == ([], [])

    unsent = make_batch()
    assert workers.resend(NOW + MESSAGE_LOST_AFTER) == ([unsent.pk], [])
    workers.waiting = 1  # so two messages are lost
    assert workers.resend(NOW + MESSAGE_LOST_AFTER) == ([first.pk, second.pk], [])


def test_queued_messages_are_counted():
    assert waiting() == 0
    assert send(dispatch.RUN_TASK, batch_pk=0)
    assert send(WRITE_FILES_TASK, batch_pk=0)
    assert waiting() == 2


def test_without_a_broker_one_batch_is_taken_and_none_counts_as_sent(make_batch: MakeBatch, workers: Workers):
    first, second = make_batch(), make_batch()
    workers.has_broker = False

    assert workers.resend() == ([], [first.pk])
    assert set(Batch.objects.values_list("sent_at", flat=True)) == {None}

    workers.has_broker = True
    assert workers.resend() == ([first.pk, second.pk], [])


def test_leased_backing_off_and_ended_batches_get_no_message(make_batch: MakeBatch, workers: Workers):
    worked_on, resting, ended = make_batch(), make_batch(), make_batch()
    leases.acquire_lease(batch_pk=worked_on.pk, worker="w", now=NOW)
    Batch.objects.filter(pk=resting.pk).update(resume_at=NOW + timedelta(seconds=1))
    Batch.objects.filter(pk=ended.pk).update(status=Batch.Status.CANCELLED, ended_at=NOW)

    assert workers.resend() == ([], [])
    assert workers.resend(NOW + leases.LEASE_DURATION) == ([worked_on.pk, resting.pk], [])
