"""Webhook of the model server, which notifies the shop that a batch has ended (Standard Webhooks 1.0.0).

A message only makes a job due. A repeated, late or replayed message therefore does no harm, and a lost one costs a few
seconds.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial

from django.conf import settings
from django.db import transaction
from standardwebhooks import Webhook, WebhookVerificationError

from commerce.descriptions.jobs import services
from commerce.descriptions.models import DescriptionJob
from shared.api.errors import ApiError

MAX_BODY_BYTES = 64 * 1024
NOT_SIGNED = "The message is not signed by the model server, or is older than five minutes."


def receive(*, body: bytes, headers: Mapping[str, str], now: datetime) -> None:
    """Make the job of the message's batch due.

    Raises ApiError 400, without a query, for a message that is not signed with our secret or is over five minutes old.
    """
    if batch_id := _verify(body, headers):
        _make_due(batch_id, now)


@transaction.atomic
def _make_due(batch_id: str, now: datetime) -> None:
    job = DescriptionJob.objects.select_for_update().filter(batch_id=batch_id, ended_at=None).first()
    if job is None:
        return  # a batch of another application, or a job that has ended
    DescriptionJob.objects.filter(pk=job.pk).update(next_check_at=now)
    transaction.on_commit(partial(services.schedule_processing, job_id=job.pk, now=now), robust=True)


def _verify(body: bytes, headers: Mapping[str, str]) -> str:
    """Return the batch id of a signed message, or "" where it has none. Raise ApiError 400 for an unsigned one."""
    if not settings.DESCRIPTIONS_WEBHOOK_SECRET or len(body) > MAX_BODY_BYTES:
        raise ApiError(400, NOT_SIGNED)
    signature_headers = {
        name: headers.get(name, "") for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
    }
    try:
        Webhook(settings.DESCRIPTIONS_WEBHOOK_SECRET).verify(body, signature_headers)
        message = json.loads(body)
    except (WebhookVerificationError, ValueError):
        raise ApiError(400, NOT_SIGNED) from None
    data = message.get("data") if isinstance(message, dict) else None
    batch_id = data.get("batch_id") if isinstance(data, dict) else None
    return batch_id if isinstance(batch_id, str) else ""
