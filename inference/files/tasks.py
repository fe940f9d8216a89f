"""What workers do for files. It is sent by name, and may run twice."""

from celery import shared_task
from django.utils import timezone

from inference.files import services


@shared_task
def sweep() -> None:
    services.sweep_files(now=timezone.now())
