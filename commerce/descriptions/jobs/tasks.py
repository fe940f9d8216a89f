"""Celery tasks of jobs. Each is sent by name and may run twice. The names are those of the first release."""

from celery import shared_task
from django.utils import timezone

from commerce.descriptions.jobs import processing


@shared_task(name="commerce.descriptions.tasks.look_after")
def process_job(*, job_id: int) -> None:
    processing.process_job(job_id=job_id, now=timezone.now())


@shared_task(name="commerce.descriptions.tasks.look_after_all")
def process_due_jobs() -> None:
    processing.process_due_jobs()
