"""The model server's Celery: `celery -A inference.config.celery worker`. See `shared.serving.processes.celery_app`."""

import os
import threading
from typing import Any

from celery.signals import worker_shutting_down

from shared.serving.processes.celery_app import count_queued_messages, create_celery_app, send_task

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.base")

# Tasks that every worker sends, and their intervals in seconds.
PERIODIC_TASKS = {
    "inference.batches.tasks.forget": 600.0,
    "inference.files.tasks.sweep": 600.0,
    "inference.responses.tasks.sweep": 600.0,
    "inference.streams.tasks.sweep": 600.0,
    "shared.webhooks.tasks.forget": 600.0,
    "inference.openai_batches.tasks.sweep": 10.0,
}

# Set at this worker's shutdown: its tasks then release their leases and end.
ending = threading.Event()

app = create_celery_app("inference", periodic_tasks=PERIODIC_TASKS)


def send(task: str, **ids: int) -> bool:
    """Send a task to a worker, by name. Return False without a broker: a sweeper sends it later."""
    return send_task(app, task, **ids)


def waiting() -> int:
    """Return the number of tasks in the queue that no worker has started."""
    return count_queued_messages(app)


@worker_shutting_down.connect
def _end_tasks(**kwargs: Any) -> None:
    ending.set()
