"""The model server's Celery: `celery -A inference.config.celery worker`. Its settings are the CELERY_ ones.

The database is the truth: a task carries ids alone and may run twice, and what a lost task left undone is found by the
sweeper of any worker, or by the next round of `ROUNDS`, which every worker starts from time to time.
"""

import os
import threading
from typing import Any

import structlog
from celery import Celery
from celery.signals import setup_logging, worker_init, worker_ready, worker_shutting_down
from django.conf import settings
from kombu.exceptions import OperationalError

from shared.observability import metrics
from shared.serving.lost_broker import outlive_the_broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.base")

# What every worker sends, and every how many seconds.
ROUNDS = {
    "inference.batches.tasks.forget": 600.0,
    "inference.files.tasks.sweep": 600.0,
    "inference.webhooks.tasks.forget": 600.0,
    "inference.openai_batches.tasks.sweep": 10.0,
}

# Set once this worker is told to end: its tasks then give back what they hold, and end.
ending = threading.Event()

logger = structlog.get_logger(__name__)

outlive_the_broker()
app = Celery("inference")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def send(task: str, **ids: int) -> bool:
    """Give a task to a worker, by name. False where there is no broker, or it cannot be reached: who sweeps the
    database sees to it."""
    if not app.conf.broker_url:
        return False
    try:
        app.send_task(task, kwargs=ids, retry=False, ignore_result=True)
    except OperationalError as error:
        logger.warning("broker_unavailable", task=task, reason=type(error.__cause__ or error).__name__)
        return False
    return True


@setup_logging.connect
def _keep_our_logging(**kwargs: Any) -> None:
    """Connected, it keeps Celery from putting its own in place of what Django's settings say."""


@worker_shutting_down.connect
def _end_tasks(**kwargs: Any) -> None:
    ending.set()


@worker_init.connect
def _count_together(**kwargs: Any) -> None:
    """Before it starts processes of its own, if it does."""
    metrics.share(settings.METRICS_DIR / settings.PROJECT)


@worker_ready.connect
def _start_rounds(**kwargs: Any) -> None:
    for task, seconds in ROUNDS.items():
        threading.Thread(target=_send_rounds, args=(task, seconds), name=task, daemon=True).start()


def _send_rounds(task: str, seconds: float) -> None:
    pause = threading.Event()
    while True:
        send(task)
        pause.wait(seconds)
