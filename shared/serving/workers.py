"""The Celery of both projects. Its settings are the CELERY_ ones.

The database is the truth: a task carries ids alone and may run twice, and what a lost task left undone is found by the
next round, which every worker starts from time to time, and goes itself while there is no broker.
"""

import threading
from collections.abc import Mapping
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
from shared.observability.tracing_out import start_tracing

# What the workers of both send, and every how many seconds.
ROUNDS = {"shared.sqlite.tasks.refresh_statistics": 6 * 3600.0}

logger = structlog.get_logger(__name__)


class LostMessages(redis.QoS):
    """What a worker has received and not acknowledged. When the connection is lost with such messages, kombu 5.7 asks
    the closed channel to restore and to acknowledge them, and that AttributeError ends the worker. Here they are left:
    the broker delivers them again, or has forgotten them; for work that is written down elsewhere both are right.

    A broker whose memory is full takes no note of them, which would end the worker too."""

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


def make_celery(name: str, *, rounds: Mapping[str, float]) -> Celery:
    """A project's one app. rounds: the tasks that every worker sends, and every how many seconds."""
    redis.Channel.QoS = LostMessages
    app = Celery(name)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.autodiscover_tasks()
    app.autodiscover_tasks(["shared.sqlite"])

    def start_rounds(**kwargs: Any) -> None:
        for task, seconds in {**ROUNDS, **rounds}.items():
            threading.Thread(target=_send_rounds, args=(app, task, seconds), name=task, daemon=True).start()

    worker_ready.connect(start_rounds, weak=False)
    return app


def send_task(app: Celery, task: str, **ids: int) -> bool:
    """Give a task to a worker, by name. False where there is no broker, or it cannot be reached."""
    if not app.conf.broker_url:
        return False
    try:
        app.send_task(task, kwargs=ids, retry=False, ignore_result=True)
    except OperationalError as error:
        logger.warning("broker_unavailable", task=task, reason=type(error.__cause__ or error).__name__)
        return False
    return True


def count_waiting(app: Celery) -> int:
    """How many messages no worker has taken yet. 0 where there is no broker, or it cannot be reached."""
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
def _keep_our_logging(**kwargs: Any) -> None:
    """Connected, it keeps Celery from putting its own in place of what Django's settings say."""


@worker_init.connect
def _observe(**kwargs: Any) -> None:
    """Before it starts processes of its own, if it does."""
    metrics.share(settings.METRICS_DIR / settings.PROJECT)
    start_tracing()


def _send_rounds(app: Celery, task: str, seconds: float) -> None:
    """While no broker takes it, each worker does the task itself: it may run twice."""
    pause = threading.Event()
    while True:
        try:
            if not send_task(app, task):
                app.tasks[task]()
        except Exception:  # of this round: the next one may be luckier
            logger.exception("round_failed", task=task)
        finally:
            connections.close_all()
        pause.wait(seconds)
