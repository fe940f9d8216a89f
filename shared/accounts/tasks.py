"""Celery task that deletes expired rows: sign-ins, their networks, the admin's sessions, responses of Idempotency-Keys.

None of them is accepted any more. Without this, rows of users who never come back would stay for ever.
"""

from datetime import datetime
from typing import Any

from celery import shared_task
from django.contrib.sessions.models import Session
from django.db.models import Q, QuerySet
from django.utils import timezone

from shared.accounts.models import SignIn, SignInNetwork
from shared.accounts.sign_ins.networks import NETWORK_LIFETIME
from shared.api.idempotency.store import RETENTION
from shared.api.models import KeyedRequest

MAX_PER_TRANSACTION = 500


@shared_task
def clear_expired() -> None:
    """Delete what has expired."""
    delete_expired(now=timezone.now())


def delete_expired(*, now: datetime) -> int:
    """Delete all expired rows, in short transactions, and return their number."""
    expired: tuple[QuerySet[Any], ...] = (
        SignIn.objects.filter(Q(expires_at__lte=now) | Q(revoked_at__lte=now)),
        SignInNetwork.objects.filter(used_at__lte=now - NETWORK_LIFETIME),
        Session.objects.filter(expire_date__lte=now),
        KeyedRequest.objects.filter(created_at__lte=now - RETENTION),
    )
    return sum(map(_delete_in_steps, expired))


def _delete_in_steps(rows: "QuerySet[Any]") -> int:
    count = 0
    while keys := list(rows.values_list("pk", flat=True)[:MAX_PER_TRANSACTION]):
        rows.model._default_manager.filter(pk__in=keys).delete()
        count += len(keys)
    return count
