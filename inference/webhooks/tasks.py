"""Celery tasks of webhooks, and the start and end of the worker's delivery thread."""

from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown
from django.utils import timezone

from inference.config.celery import ending
from inference.webhooks.delivery.outbox import delete_old_deliveries
from inference.webhooks.delivery.worker import DeliveryWorker

_worker = DeliveryWorker(ending)


@shared_task
def forget() -> None:
    """Delete deliveries whose retention is over."""
    while delete_old_deliveries(now=timezone.now()):
        pass


@worker_ready.connect
def _start(**kwargs: Any) -> None:
    _worker.start()


@worker_shutdown.connect
def _stop(**kwargs: Any) -> None:
    _worker.join()
