"""What was dropped is picked up, by one worker of all at a time: whoever holds the sweeper's lease."""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from inference.batches import dispatch, outcomes, services
from inference.batches.models import Sweeper

HOLDS_FOR = timedelta(seconds=10)
NAME = "batches"

logger = structlog.get_logger(__name__)
_owner = uuid.uuid4()  # this process


def sweep(*, now: datetime, take: Callable[[int], bool], owner: uuid.UUID = _owner) -> bool:
    """Take back what dead workers held, end what is late, nobody's or too large, and send for what nobody works on, or
    `take` it: see `dispatch.resend`. False: another sweeps."""
    if not _hold(owner, now):
        return False
    reclaimed = outcomes.reclaim(now=now)
    expired = services.expire_batches(now=now)
    cancelled = services.cancel_batches_of_the_inactive(now=now)
    overfull = services.end_overfull_batches(now=now)
    sent = dispatch.resend(now=now, take=take)
    if reclaimed or expired or cancelled or overfull or sent:
        logger.info(
            "batches_swept", reclaimed=reclaimed, expired=expired, cancelled=cancelled, overfull=overfull, sent=sent
        )
    return True


def _hold(owner: uuid.UUID, now: datetime) -> bool:
    """Whether the lease is ours: still, or because nobody else's holds."""
    until = now + HOLDS_FOR
    sweeper, is_new = Sweeper.objects.get_or_create(name=NAME, defaults={"owner": owner, "until": until})
    if is_new:
        return True
    held = Sweeper.objects.filter(name=NAME, owner=sweeper.owner, until=sweeper.until)
    is_free = sweeper.owner == owner or sweeper.until <= now
    return is_free and held.update(owner=owner, until=until) == 1
