"""`worker`: does batches and sends webhooks, with a model host beside it where none runs yet."""

import os
import sys
from typing import Annotated

import typer
from django.conf import settings

from inference.cli.database import refuse_empty_database
from inference.cli.failures import fail


def worker(
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Tasks at once: batches take turns at them.")
    ] = settings.CELERY_WORKER_CONCURRENCY,
) -> None:
    """Work until SIGTERM or Ctrl-C, which hand back what is running. Any number of workers may run, on any machine."""
    if not settings.CELERY_BROKER_URL:
        fail("A worker is sent for through a broker: set REDIS_URL, or STOA_BROKER_URL, to what the server has.")
    refuse_empty_database()
    celery = [sys.executable, "-m", "celery", "-A", "inference.config.celery", "worker"]
    os.execv(celery[0], [*celery, "--concurrency", str(concurrency)])  # noqa: S606 our own
