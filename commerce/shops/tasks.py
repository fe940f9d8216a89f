"""Celery tasks of shops. Each is called by name and may run twice."""

from celery import shared_task
from django.utils import timezone

from commerce.shops.invitations import delete_expired_invitations


@shared_task
def clear_invitations() -> None:
    delete_expired_invitations(now=timezone.now())
