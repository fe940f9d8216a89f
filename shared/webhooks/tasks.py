"""Delivery of webhooks: by a thread of each Celery worker or, in a project without workers, by the server."""

from threading import Event
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.utils import timezone

from shared.webhooks.delivery.outbox import delete_old_deliveries, deliver_due
from shared.webhooks.delivery.worker import DeliveryWorker
from shared.webhooks.services import disable_endpoints_of_former_users

_ending = Event()
_worker = DeliveryWorker(_ending)


@shared_task
def forget() -> None:
    """Delete deliveries whose retention is over, and disable endpoints whose users lost the right to them."""
    delete_expired()


def delete_expired() -> None:
    """Do what `forget` does, without Celery."""
    disable_endpoints_of_former_users(now=timezone.now())
    while delete_old_deliveries(now=timezone.now()):
        pass


def deliver() -> None:
    """Send what is due. Servers call it periodically where there are no workers."""
    deliver_due()


@worker_ready.connect
def _start(**kwargs: Any) -> None:
    _worker.start()


@worker_shutting_down.connect
def _release(**kwargs: Any) -> None:
    _ending.set()


@worker_shutdown.connect
def _stop(**kwargs: Any) -> None:
    _worker.join()
