"""Celery tasks of search. Each is sent by its name and may run twice at once."""

from celery import shared_task

from commerce.catalog.search import indexing


@shared_task(name="commerce.catalog.search.tasks.update_index")
def update_index() -> None:
    indexing.update_index()
