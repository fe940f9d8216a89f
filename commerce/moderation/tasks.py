"""Celery tasks of moderation. They are called by name and may run twice."""

from celery import shared_task
from django.utils import timezone

from commerce.moderation.notices import delivery
from commerce.moderation.suggestions import training, vectors


@shared_task
def send_notices() -> None:
    delivery.send_notices()


@shared_task
def update_suggestions() -> None:
    now = timezone.now()
    vectors.update_case_vectors(now=now)
    training.update_suggestion_model(now=now)
