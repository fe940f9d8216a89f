"""Celery tasks of moderation. They are called by name and may run twice."""

from celery import shared_task

from commerce.moderation.notices import delivery


@shared_task
def send_notices() -> None:
    delivery.send_notices()
