"""Batches in a worker: a turn at one of them, and what the worker itself does for all, from its start to its end."""

from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown
from django.db import connection
from django.utils import timezone

from inference.batches import dispatch, services
from inference.batches.runner import run_batch
from inference.batches.worker import this_worker
from inference.config.celery import ending


@shared_task
def run(*, batch_pk: int) -> None:
    """A turn at this batch, unless the message came twice."""
    is_ours = dispatch.take_message(batch_pk=batch_pk)
    connection.close()  # a turn has a thread for the database, and is not to hold two of a pool's connections
    if is_ours:
        run_batch(batch_pk=batch_pk, worker=this_worker.name, ending=ending)


@shared_task
def forget() -> None:
    """Delete what ended long ago."""
    while services.forget_batches(now=timezone.now()):
        pass


@worker_ready.connect
def _start(**kwargs: Any) -> None:
    this_worker.start()


@worker_shutdown.connect
def _end(**kwargs: Any) -> None:
    this_worker.end()
