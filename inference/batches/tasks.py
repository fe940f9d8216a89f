"""Celery tasks of batches, and the start and end of the worker's own threads."""

from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown
from django.db import connection
from django.utils import timezone

from inference.batches import dispatch
from inference.batches.worker.process import worker
from inference.batches.worker.runner import run_batch
from inference.batches.worker.sweeper import delete_old_batches
from inference.config.celery import ending


@shared_task
def run(*, batch_pk: int) -> None:
    """Work on this batch for one time slice, unless the message is a duplicate."""
    is_valid = dispatch.consume_message(batch_pk=batch_pk)
    connection.close()  # the run has its own database thread and must not hold two pooled connections
    if is_valid:
        run_batch(batch_pk=batch_pk, worker=worker.name, ending=ending)


@shared_task
def forget() -> None:
    """Delete batches whose retention is over."""
    while delete_old_batches(now=timezone.now()):
        pass


@worker_ready.connect
def _start(**kwargs: Any) -> None:
    worker.start()


@worker_shutdown.connect
def _stop(**kwargs: Any) -> None:
    worker.stop()
