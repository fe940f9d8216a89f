"""What workers do for attachments. They are sent by name; either may run twice."""

from celery import shared_task
from django.utils import timezone

from commerce.attachments import services
from commerce.attachments.picture_process import PicturesUnavailable


@shared_task(autoretry_for=(OSError, PicturesUnavailable), retry_backoff=5, max_retries=5)
def make_sizes(*, attachment_id: int) -> None:
    services.make_sizes(attachment_id=attachment_id, now=timezone.now())


@shared_task
def collect() -> None:
    services.collect(now=timezone.now())
