"""Celery tasks of stored streams. They may run twice."""

from celery import shared_task
from django.utils import timezone

from inference.streams import services


@shared_task
def sweep() -> None:
    """Delete streams whose retention is over."""
    while services.delete_old_streams(now=timezone.now()):
        pass
