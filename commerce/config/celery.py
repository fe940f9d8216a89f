"""The shop's Celery: `celery -A commerce.config.celery worker`. Its settings are the CELERY_ ones.

The database is the truth: a task carries ids alone and may run twice, and what a lost task left undone is found by the
next round of `ROUNDS`, which every worker starts from time to time.
"""

import os
import threading
from typing import Any

import structlog
from celery import Celery
from celery.signals import setup_logging, worker_init, worker_ready
from django.conf import settings
from kombu.exceptions import OperationalError

from shared.observability import metrics

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")

# What every worker sends, and every how many seconds.
ROUNDS = {
    "commerce.attachments.tasks.collect": 600.0,
    "commerce.moderation.tasks.send_notices": 30.0,
    "commerce.analytics.tasks.keep_up": 10.0,
    "commerce.analytics.tasks.reconcile": 600.0,
    "commerce.descriptions.tasks.look_after_all": 5.0,
}

logger = structlog.get_logger(__name__)

app = Celery("commerce")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def send(task: str, **ids: int) -> bool:
    """Give a task to a worker, by name. False where the broker cannot be reached: the next round sees to it."""
    try:
        app.send_task(task, kwargs=ids, retry=False, ignore_result=True)
    except OperationalError as error:
        logger.warning("broker_unavailable", task=task, reason=type(error.__cause__ or error).__name__)
        return False
    return True


@setup_logging.connect
def _keep_our_logging(**kwargs: Any) -> None:
    """Connected, it keeps Celery from putting its own in place of what Django's settings say."""


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
