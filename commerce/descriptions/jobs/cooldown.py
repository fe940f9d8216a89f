"""Cooldown of an unreachable model server, shared by all workers through a database row.

A call that times out occupies a worker for twenty seconds. After a few such calls in a row, jobs are delayed without a
call, for longer each time. After the cooldown one worker probes the server while the others wait for its result. Any
response, even an error, ends the cooldown.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Q

from commerce.descriptions.models import ServerCooldown
from commerce.descriptions.provider.batches import (
    CALL_TIMEOUT_SECONDS,
    BatchServerError,
    BatchServerUnavailable,
    BatchServerUnreachable,
)
from shared.backoff import Backoff

MAX_FAILURES = 3
COOLDOWN = Backoff(first_seconds=10, max_seconds=120)
PROBE_CHECK_INTERVAL = timedelta(seconds=3)  # for the workers that wait for a probe
PROBE_TIMEOUT = timedelta(seconds=CALL_TIMEOUT_SECONDS + 10)  # a probing worker that takes longer is considered dead

log = structlog.get_logger(__name__)


class ServerCoolingDown(Exception):
    """The model server must not be called before `until`."""

    def __init__(self, until: datetime) -> None:
        super().__init__()
        self.until = until


@contextmanager
def guard_call(*, now: datetime) -> Iterator[None]:
    """Wrap a call of the model server and record its outcome. Raise ServerCoolingDown instead of calling."""
    _admit(now)
    started = time.monotonic()
    try:
        yield
    except BatchServerUnreachable:
        _record_failure(now + timedelta(seconds=time.monotonic() - started))
        raise
    except (BatchServerUnavailable, BatchServerError):
        _record_response()
        raise
    _record_response()


def _admit(now: datetime) -> None:
    row = ServerCooldown.objects.filter(cooldown_until__isnull=False).first()
    if row is None or row.cooldown_until is None:
        return
    if row.cooldown_until > now:
        raise ServerCoolingDown(row.cooldown_until)
    is_not_probing = Q(probe_until=None) | Q(probe_until__lte=now)
    if not ServerCooldown.objects.filter(is_not_probing, pk=row.pk).update(probe_until=now + PROBE_TIMEOUT):
        raise ServerCoolingDown(now + PROBE_CHECK_INTERVAL)


@transaction.atomic
def _record_failure(now: datetime) -> None:
    ServerCooldown.objects.get_or_create(pk=ServerCooldown.ROW_ID)
    row = ServerCooldown.objects.select_for_update().get(pk=ServerCooldown.ROW_ID)
    row.failure_count += 1
    if row.failure_count >= MAX_FAILURES:
        seconds = COOLDOWN.seconds(row.failure_count - MAX_FAILURES + 1)
        row.cooldown_until, row.probe_until = now + timedelta(seconds=seconds), None
        log.warning("model_server_cooldown_started", failures=row.failure_count, seconds=seconds)
    row.save()


def _record_response() -> None:
    rows = ServerCooldown.objects.filter(failure_count__gt=0)
    if rows.exists():  # usually false, and a read is cheaper than a write
        rows.update(failure_count=0, cooldown_until=None, probe_until=None)
        log.info("model_server_recovered")
