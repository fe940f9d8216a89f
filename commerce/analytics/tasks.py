"""What workers do for the figures. They are sent by name; either may run twice."""

from celery import shared_task
from django.utils import timezone

from commerce.analytics import services


@shared_task
def keep_up() -> None:
    services.keep_up(now=timezone.now())


@shared_task(soft_time_limit=3600, time_limit=3660)
def reconcile() -> None:
    services.reconcile_nightly(now=timezone.now())
