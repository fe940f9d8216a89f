"""Celery tasks of OpenAI's batches. Both may run twice."""

from celery import shared_task
from django.utils import timezone

from inference.openai_batches.output_files import sweep_file_batches, write_output_files


@shared_task
def finish(*, batch_pk: int) -> None:
    """Write the output and error files of an ended batch."""
    write_output_files(batch_pk=batch_pk, now=timezone.now())


@shared_task
def sweep() -> None:
    """Delete old invalid batches, and have the files written that no task has written."""
    sweep_file_batches(now=timezone.now())
