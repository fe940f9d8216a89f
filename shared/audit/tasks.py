"""Celery task of the audit log."""

from celery import shared_task
from django.utils import timezone

from shared.audit.retention import maintain


@shared_task
def maintain_log() -> None:
    """Create partitions ahead, and remove what is older than the retention."""
    maintain(now=timezone.now())
