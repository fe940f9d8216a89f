"""Celery tasks of the accounts."""

from celery import shared_task
from django.utils import timezone

from shared.accounts.expiry import delete_expired


@shared_task
def clear_expired() -> None:
    """Delete sign-ins, sessions and stored responses that have expired."""
    delete_expired(now=timezone.now())
