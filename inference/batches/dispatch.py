"""Sending workers for batches. The rows are the outbox: what is open, is nobody's, and has no message on its way, is
sent for again.

A batch has at most one message that counts: `sent_at` says that it is on its way, and the task that takes it clears
that. A task that finds it cleared was sent twice, and ends at once. Whoever finds that a message was not taken, or that
there is no broker, may take the batch itself: no batch waits for a broker.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from django.db.models import Exists, F, OuterRef, Q

from inference.batches.models import Batch, BatchQuerySet, Lease
from inference.config.celery import send, waiting

RUN = "inference.batches.tasks.run"
# A message that nobody has taken for so long may be lost, or it only waits its turn. As long as no fewer messages wait
# than there are such batches, none is sent again: else the queue would grow for as long as there is too much to do.
LOST_AFTER = timedelta(seconds=10)
MOST_A_ROUND = 200

logger = structlog.get_logger(__name__)


def wake(*, batch_pk: int, now: datetime) -> None:
    """Send a worker for the batch, unless it has ended, rests, or one is on its way already."""
    _send(Batch.objects.filter(pk=batch_pk, sent_at=None), batch_pk, now)


def take_message(*, batch_pk: int) -> bool:
    """Whether the message that brought us here counts."""
    return Batch.objects.filter(pk=batch_pk, sent_at__isnull=False).update(sent_at=None) == 1


def resend(*, now: datetime, take: Callable[[int], bool]) -> int:
    """Send for every open batch that nobody works on and nobody is on the way to. Answers for how many.

    take: asked for one whose message was not taken, or cannot be sent; answers whether who calls works on it now.
    """
    lost = Q(sent_at=None) | Q(sent_at__lte=now - LOST_AFTER)
    alone = ~Exists(Lease.objects.filter(batch=OuterRef("pk"), until__gt=now))
    open_ones = Batch.objects.filter(lost, alone, ended_at=None, resume_at__lte=now)
    longest_first = open_ones.order_by(F("sent_at").asc(nulls_first=True), "resume_at", "pk")
    batches = list(longest_first.values_list("pk", "sent_at")[:MOST_A_ROUND])
    lost_ones = sum(sent_at is not None for _, sent_at in batches)
    lacking = lost_ones and lost_ones - waiting()
    seen_to = 0
    for batch_pk, sent_at in batches:
        if sent_at is not None:
            if take(batch_pk):
                seen_to += 1
                continue
            if lacking <= 0:
                break
            lacking -= 1
        if not _send(Batch.objects.filter(lost, pk=batch_pk), batch_pk, now):
            take(batch_pk)
            break  # no broker: the others would wait for it as well
        seen_to += 1
    return seen_to


def _send(found: BatchQuerySet, batch_pk: int, now: datetime) -> bool:
    """False where the broker could not be reached."""
    if not found.filter(ended_at=None, resume_at__lte=now).update(sent_at=now):
        return True
    if send(RUN, batch_pk=batch_pk):
        return True
    logger.warning("batch_waits", batch=batch_pk)  # for a worker's sweeper, or for a broker to be set up
    Batch.objects.filter(pk=batch_pk, sent_at=now).update(sent_at=None)
    return False
