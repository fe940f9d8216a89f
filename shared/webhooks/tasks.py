"""Delivery of webhooks: by a thread of each Celery worker or, in a project without workers, by the server."""

from functools import partial
from threading import Event, Thread
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.utils import timezone

from shared.serving.processes.periodic_tasks import start_periodic_task
from shared.webhooks.delivery.outbox import delete_old_deliveries, deliver_due
from shared.webhooks.services import disable_endpoints_of_former_users

POLL_INTERVAL_SECONDS = 0.5
SHUTDOWN_TIMEOUT_SECONDS = 5.0


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


def start_delivering(ending: Event) -> Thread:
    """Send what is due in a thread until `ending` is set, and then release unfinished deliveries.

    It needs no broker: workers poll the outbox and share what is due.
    """
    task = partial(deliver_due, stopping=ending)
    return start_periodic_task(task, POLL_INTERVAL_SECONDS, name="webhook-delivery", ending=ending)


@worker_ready.connect
def _start(**kwargs: Any) -> None:
    ending = Event()
    thread = start_delivering(ending)
    worker_shutting_down.connect(lambda **_: ending.set(), weak=False)
    worker_shutdown.connect(lambda **_: thread.join(SHUTDOWN_TIMEOUT_SECONDS), weak=False)
