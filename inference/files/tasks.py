"""Celery tasks of files. They may run twice."""

from celery import shared_task
from django.utils import timezone

from inference.files import services


@shared_task
def sweep() -> None:
    """Delete expired files and the remains of interrupted uploads."""
    services.sweep_files(now=timezone.now())
