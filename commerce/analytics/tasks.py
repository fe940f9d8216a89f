"""Celery tasks of analytics. Each is sent by its name and may run twice at once."""

from celery import shared_task
from django.utils import timezone

from commerce.analytics import services


@shared_task(name="commerce.analytics.tasks.keep_up")
def run_maintenance() -> None:
    services.run_maintenance(now=timezone.now())


@shared_task(name="commerce.analytics.tasks.reconcile", soft_time_limit=3600, time_limit=3660)
def reconcile_nightly() -> None:
    services.reconcile_nightly(now=timezone.now())


@shared_task(name="commerce.analytics.tasks.compute_requested_reports", soft_time_limit=1800, time_limit=1860)
def compute_requested_reports() -> None:
    services.compute_requested_reports()
