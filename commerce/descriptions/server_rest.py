"""A model server that does not answer at all is left alone for a while, by all workers.

A call that runs into its time limit holds a worker for twenty seconds. After a few of them in a row jobs are put off
without a call, longer each time; when that is over one worker asks, and the others wait for what it hears. Any answer,
an error too, ends it. What is known is a row of the database, as there are several workers.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Q

from commerce.descriptions.batch_server import CALL_S, BatchServerAway, BatchServerError, BatchServerSilent
from commerce.descriptions.models import ServerSilence

SILENT_TO_REST = 3
FIRST_REST = timedelta(seconds=10)
LONGEST_REST = timedelta(minutes=2)
LOOK_AGAIN_AFTER = timedelta(seconds=3)  # while somebody asks
ASKED_WITHIN = timedelta(seconds=CALL_S + 10)  # after it, whoever asked for all counts as dead

log = structlog.get_logger(__name__)


class ServerRests(Exception):
    """The model server is left alone until then; nothing was asked."""

    def __init__(self, until: datetime) -> None:
        super().__init__()
        self.until = until


@contextmanager
def asking(*, now: datetime) -> Iterator[None]:
    """Around what is asked of the model server: lets it through, and learns from how it ends. Raises ServerRests."""
    _admit(now)
    started = time.monotonic()
    try:
        yield
    except BatchServerSilent:
        _silent(now + timedelta(seconds=time.monotonic() - started))
        raise
    except (BatchServerAway, BatchServerError):
        _answered()
        raise
    _answered()


def _admit(now: datetime) -> None:
    rest = ServerSilence.objects.filter(rests_until__isnull=False).first()
    if rest is None or rest.rests_until is None:
        return
    if rest.rests_until > now:
        raise ServerRests(rest.rests_until)
    # Of those who come now, one asks.
    nobody_asks = Q(asked_until=None) | Q(asked_until__lte=now)
    if not ServerSilence.objects.filter(nobody_asks, pk=rest.pk).update(asked_until=now + ASKED_WITHIN):
        raise ServerRests(now + LOOK_AGAIN_AFTER)


@transaction.atomic
def _silent(now: datetime) -> None:
    ServerSilence.objects.get_or_create(pk=ServerSilence.ROW)
    row = ServerSilence.objects.select_for_update().get(pk=ServerSilence.ROW)
    row.times += 1
    if row.times >= SILENT_TO_REST:
        rest = min(FIRST_REST * 2 ** min(row.times - SILENT_TO_REST, 10), LONGEST_REST)
        row.rests_until, row.asked_until = now + rest, None
        log.warning("model_server_rests", times=row.times, seconds=rest.total_seconds())
    row.save()


def _answered() -> None:
    silences = ServerSilence.objects.filter(times__gt=0)
    if silences.exists():  # reading is cheap, and the rule
        silences.update(times=0, rests_until=None, asked_until=None)
        log.info("model_server_answers")
