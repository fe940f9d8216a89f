"""The shop's Celery: `celery -A commerce.config.celery worker`. See `shared.serving.workers`."""

import os

from shared.serving.workers import make_celery, send_task

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")

# What every worker sends, and every how many seconds.
ROUNDS = {
    "commerce.attachments.tasks.collect": 600.0,
    "commerce.moderation.tasks.send_notices": 30.0,
    "commerce.analytics.tasks.keep_up": 10.0,
    "commerce.analytics.tasks.reconcile": 600.0,
    "commerce.descriptions.tasks.look_after_all": 5.0,
}

app = make_celery("commerce", rounds=ROUNDS)


def send(task: str, **ids: int) -> bool:
    """Give a task to a worker, by name. False where none can be reached: the next round sees to it."""
    return send_task(app, task, **ids)
