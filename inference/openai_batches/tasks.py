"""What workers do for batches of files. They are sent by name; either may run twice."""

from celery import shared_task
from django.utils import timezone

from inference.openai_batches import services


@shared_task
def finish(*, batch_pk: int) -> None:
    services.finish_file_batch(batch_pk=batch_pk, now=timezone.now())


@shared_task
def sweep() -> None:
    services.sweep_file_batches(now=timezone.now())
