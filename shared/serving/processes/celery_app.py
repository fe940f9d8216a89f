"""The Celery app of both projects, configured by the CELERY_ settings.

The database is the source of truth: a task carries ids only and may run twice. A periodic task finds what a lost
message left undone; every worker sends these tasks, and runs them itself while there is no broker.
"""

import logging
import threading
from collections.abc import Collection, Mapping
from typing import Any

import structlog
from celery import Celery
from celery.signals import setup_logging, worker_init, worker_ready
from django.conf import settings
from django.db import connections
from kombu.exceptions import OperationalError
from kombu.transport import redis, virtual
from redis.exceptions import OutOfMemoryError

from shared.observability import metrics
from shared.observability.trace_export import start_tracing

# Task names of both projects, with their interval in seconds.
PERIODIC_TASKS = {
    "shared.accounts.tasks.clear_expired": 3600.0,
    "shared.audit.tasks.maintain_log": 3600.0,
    "shared.sqlite.tasks.refresh_statistics": 6 * 3600.0,
}

logger = structlog.get_logger(__name__)


class LostConnectionQoS(redis.QoS):
    """Unacknowledged messages of a worker, which a lost connection does not break.

    After a lost connection kombu 5.7 restores and acknowledges them on the closed channel; the AttributeError ends the
    worker. Here they are left alone: the broker delivers them again or has lost them, and both are right for jobs that
    the database holds. A broker with full memory refuses to track them, which would end the worker as well.
    """

    restore_at_shutdown = False

    def append(self, message: Any, delivery_tag: Any) -> None:
        try:
            super().append(message, delivery_tag)
        except OutOfMemoryError:
            virtual.QoS.append(self, message, delivery_tag)

    def ack(self, delivery_tag: Any) -> None:
        if not self.channel.closed:
            try:
                super().ack(delivery_tag)
            except OutOfMemoryError:
                virtual.QoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:
        if not self.channel.closed:
            try:
                super().reject(delivery_tag, requeue)
            except OutOfMemoryError:
                virtual.QoS.ack(self, delivery_tag)


class PeriodicTasksFilter(logging.Filter):
    """Filter that drops Celery's lines about the runs of periodic tasks, but for failures: most find nothing to do."""

    def __init__(self, tasks: Collection[str]) -> None:
        super().__init__()
        self._tasks = tasks

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.INFO or getattr(record, "data", {}).get("name") not in self._tasks


def create_celery_app(name: str, *, periodic_tasks: Mapping[str, float]) -> Celery:
    """Return a project's Celery app. `periodic_tasks`: task names with their interval in seconds."""
    redis.Channel.QoS = LostConnectionQoS
    app = Celery(name)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.autodiscover_tasks()
    app.autodiscover_tasks(["shared.sqlite"])
    periodic = {**PERIODIC_TASKS, **periodic_tasks}
    for celery_logger in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(celery_logger).addFilter(PeriodicTasksFilter(periodic))

    def start_sending(**kwargs: Any) -> None:
        for task, seconds in periodic.items():
            threading.Thread(target=_send_periodically, args=(app, task, seconds), name=task, daemon=True).start()

    worker_ready.connect(start_sending, weak=False)
    return app


def send_task(app: Celery, task: str, **ids: int) -> bool:
    """Send a task by name. Return False without a broker, or if the broker is unreachable."""
    if not app.conf.broker_url:
        return False
    try:
        app.send_task(task, kwargs=ids, retry=False, ignore_result=True)
    except OperationalError as error:
        logger.warning("broker_unavailable", task=task, reason=type(error.__cause__ or error).__name__)
        return False
    return True


def count_queued_messages(app: Celery) -> int:
    """Return the number of messages in the queue; 0 without a broker, or if the broker is unreachable."""
    if not app.conf.broker_url:
        return 0
    with app.connection_for_write() as connection:
        try:
            queue = app.amqp.queues[app.conf.task_default_queue].bind(connection.channel())
            declared: Any = queue.queue_declare()
        except (*connection.connection_errors, *connection.channel_errors) as error:
            logger.warning("broker_unavailable", reason=type(error).__name__)
            return 0
    return int(declared.message_count)


@setup_logging.connect
def _keep_django_logging(**kwargs: Any) -> None:
    """Keep Django's logging: a receiver of this signal stops Celery from configuring its own."""


@worker_init.connect
def _start_observability(**kwargs: Any) -> None:
    """Share metrics and start tracing in the worker's main process, before it forks."""
    metrics.use_shared_folder(settings.METRICS_DIR / settings.PROJECT)
    start_tracing()


def _send_periodically(app: Celery, task: str, seconds: float) -> None:
    """Send the task at each interval. While no broker takes it, run it here, maybe in several workers at once."""
    pause = threading.Event()
    while True:
        try:
            if not send_task(app, task):
                app.tasks[task]()
        except Exception:  # the next run may succeed
            logger.exception("periodic_task_failed", task=task)
        finally:
            connections.close_all()
        pause.wait(seconds)
