"""Messages to workers. The rows are the outbox: an open batch without a worker or a pending message gets a message.

A batch has at most one valid message: `sent_at` says that it is pending, and the task that receives it clears the
field. A task that finds the field cleared is a duplicate and ends at once. The sweeper takes a batch itself if its
message was lost or no broker can be reached, so no batch waits for a broker.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from django.db.models import Exists, F, OuterRef, Q

from inference.batches.models import Batch, BatchQuerySet, Lease
from inference.config.celery import send, waiting

RUN_TASK = "inference.batches.tasks.run"
WRITE_FILES_TASK = "inference.openai_batches.tasks.finish"
# A message this old is lost, or still waits in the queue. Messages are sent again only while the queue holds fewer than
# there are such batches: otherwise an overloaded queue would grow without end.
MESSAGE_LOST_AFTER = timedelta(seconds=10)
MAX_PER_SWEEP = 200

logger = structlog.get_logger(__name__)


def dispatch_batch(*, batch_pk: int, now: datetime) -> None:
    """Send a message for the batch, unless it has ended, is backing off or has a pending message."""
    _send(Batch.objects.filter(pk=batch_pk, sent_at=None), batch_pk, now)


def consume_message(*, batch_pk: int) -> bool:
    """Return whether the received message is the batch's pending one, and clear it."""
    return Batch.objects.filter(pk=batch_pk, sent_at__isnull=False).update(sent_at=None) == 1


def redispatch(*, now: datetime, take: Callable[[int], bool]) -> int:
    """Send messages for open batches that have neither a worker nor a fresh message. Return for how many.

    take: called with a batch whose message was lost or cannot be sent; returns whether the caller now works on it.
    """
    lost = Q(sent_at=None) | Q(sent_at__lte=now - MESSAGE_LOST_AFTER)
    unleased = ~Exists(Lease.objects.filter(batch=OuterRef("pk"), expires_at__gt=now))
    candidates = Batch.objects.filter(lost, unleased, ended_at=None, resume_at__lte=now)
    oldest_first = candidates.order_by(F("sent_at").asc(nulls_first=True), "resume_at", "pk")
    batches = list(oldest_first.values_list("pk", "sent_at")[:MAX_PER_SWEEP])
    lost_count = sum(sent_at is not None for _, sent_at in batches)
    missing_count = lost_count and lost_count - waiting()
    dispatched = 0
    for batch_pk, sent_at in batches:
        if sent_at is not None:
            if take(batch_pk):
                dispatched += 1
                continue
            if missing_count <= 0:
                break
            missing_count -= 1
        if not _send(Batch.objects.filter(lost, pk=batch_pk), batch_pk, now):
            take(batch_pk)
            break  # no broker: the other messages would fail too
        dispatched += 1
    return dispatched


def _send(batches: BatchQuerySet, batch_pk: int, now: datetime) -> bool:
    """Return False if the broker cannot be reached."""
    if not batches.filter(ended_at=None, resume_at__lte=now).update(sent_at=now):
        return True
    if send(RUN_TASK, batch_pk=batch_pk):
        return True
    logger.warning("batch_dispatch_failed", batch=batch_pk)  # the sweeper of any worker takes it
    Batch.objects.filter(pk=batch_pk, sent_at=now).update(sent_at=None)
    return False
