"""Celery tasks of responses, and the start and end of the worker's own thread."""

from typing import Any

from celery import shared_task
from celery.signals import worker_init, worker_shutdown
from django.utils import timezone

from inference.responses import conversations, services
from inference.responses.worker.process import response_worker


@shared_task
def sweep() -> None:
    """Delete responses and conversations whose retention is over, and the oldest above a user's storage."""
    now = timezone.now()
    while services.delete_old_responses(now=now):
        pass
    while services.delete_surplus_responses(now=now):
        pass
    while conversations.delete_old_conversations(now=now):
        pass


@worker_init.connect  # `worker_ready` would wait for a broker, which responses do not need
def _start(**kwargs: Any) -> None:
    response_worker.start()


@worker_shutdown.connect
def _stop(**kwargs: Any) -> None:
    response_worker.stop()
