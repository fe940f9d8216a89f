"""What workers do for descriptions. They are sent by name; either may run twice."""

from celery import shared_task
from django.utils import timezone

from commerce.descriptions import job_rounds


@shared_task
def look_after(*, job_id: int) -> None:
    job_rounds.look_after(job_id=job_id, now=timezone.now())


@shared_task
def look_after_all() -> None:
    job_rounds.look_after_all()
