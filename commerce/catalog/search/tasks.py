"""Celery tasks of search. Each is sent by its name and may run twice at once."""

from celery import shared_task
from django.utils import timezone

from commerce.catalog.search import indexing
from commerce.catalog.search.vectors import embedding


@shared_task(name="commerce.catalog.search.tasks.update_index")
def update_index() -> None:
    indexing.update_index()


@shared_task(name="commerce.catalog.search.tasks.update_vectors")
def update_vectors() -> None:
    embedding.update_vectors(now=timezone.now())
