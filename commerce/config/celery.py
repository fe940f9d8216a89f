"""Celery application of the shop: `celery -A commerce.config.celery worker`."""

import os

from shared.serving.processes.celery_app import create_celery_app, send_task

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")

# Task names and their intervals in seconds.
PERIODIC_TASKS = {
    "commerce.attachments.tasks.collect": 600.0,
    "commerce.moderation.tasks.send_notices": 30.0,
    "commerce.moderation.tasks.update_suggestions": 30.0,
    "commerce.analytics.tasks.keep_up": 10.0,
    "commerce.analytics.tasks.reconcile": 600.0,
    "commerce.analytics.tasks.compute_requested_reports": 5.0,
    "commerce.catalog.search.tasks.update_index": 10.0,
    "commerce.catalog.search.tasks.update_vectors": 10.0,
    "commerce.descriptions.tasks.look_after_all": 5.0,
    "commerce.shops.tasks.clear_invitations": 3600.0,
    "shared.webhooks.tasks.forget": 600.0,
}

app = create_celery_app("commerce", periodic_tasks=PERIODIC_TASKS)
app.autodiscover_tasks(["commerce.descriptions.jobs", "commerce.catalog.search"])


def send(task: str, **ids: int) -> bool:
    """Send a task to a worker by name. Return False if the broker cannot be reached: periodic tasks catch up."""
    return send_task(app, task, **ids)
