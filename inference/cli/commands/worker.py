"""The command `worker`."""

import os
import sys
from typing import Annotated

import typer
from django.conf import settings

from inference.cli.database import import_settings, require_tables
from inference.cli.errors import exit_with_error


def worker(
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Concurrent tasks. Batches take turns.")
    ] = settings.CELERY_WORKER_CONCURRENCY,
) -> None:
    """Run a Celery worker for batches and webhooks until SIGTERM or Ctrl-C, and a model host if none is running.

    At its end it returns running work to the queue. Any number of workers may run, on any machine.
    """
    if not settings.CELERY_BROKER_URL:
        exit_with_error("A worker needs a broker: set REDIS_URL or STOA_BROKER_URL to the same value as the server.")
    require_tables()
    import_settings()
    celery = [sys.executable, "-m", "celery", "-A", "inference.config.celery", "worker"]
    os.execv(celery[0], [*celery, "--concurrency", str(concurrency)])  # noqa: S606 our own
