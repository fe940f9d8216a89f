"""Celery tasks of OpenAI's batches. All may run twice."""

from celery import shared_task
from django.utils import timezone

from inference.config.celery import ending
from inference.openai_batches.handover.services import advance_handover, sweep_handovers
from inference.openai_batches.output_files import sweep_file_batches, write_output_files


@shared_task
def finish(*, batch_pk: int) -> None:
    """Write the output and error files of an ended batch."""
    write_output_files(batch_pk=batch_pk, now=timezone.now())


@shared_task
def sweep() -> None:
    """Delete old invalid batches, have the files written that no task has written, and hand-overs advanced."""
    now = timezone.now()
    sweep_file_batches(now=now)
    sweep_handovers(now=now, ending=ending)


@shared_task
def advance(*, handover_pk: int) -> None:
    """Do the next step of the hand-over of a batch to a pool member."""
    advance_handover(handover_pk=handover_pk, ending=ending)
