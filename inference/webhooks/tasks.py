"""Webhooks in a worker: what its sender does from its start to its end, and what is deleted from time to time."""

from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown
from django.utils import timezone

from inference.config.celery import ending
from inference.webhooks import delivery
from inference.webhooks.sender import Sender

_sender = Sender(ending)


@shared_task
def forget() -> None:
    """Delete what ended long ago."""
    while delivery.forget_old(now=timezone.now()):
        pass


@worker_ready.connect
def _start(**kwargs: Any) -> None:
    _sender.start()


@worker_shutdown.connect
def _end(**kwargs: Any) -> None:
    _sender.join()
