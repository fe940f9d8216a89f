"""Celery tasks for SQLite databases."""

from celery import shared_task

from shared.sqlite import statistics


@shared_task
def refresh_statistics() -> None:
    statistics.refresh_statistics()
