"""Celery tasks of attachments. Each is sent by name and may run twice."""

from celery import shared_task
from django.utils import timezone

from commerce.attachments import services
from commerce.attachments.images.worker_client import ImageWorkerUnavailable


@shared_task(autoretry_for=(OSError, ImageWorkerUnavailable), retry_backoff=5, max_retries=5)
def make_sizes(*, attachment_id: int) -> None:
    services.make_sizes(attachment_id=attachment_id, now=timezone.now())


@shared_task
def collect() -> None:
    services.collect_garbage(now=timezone.now())
