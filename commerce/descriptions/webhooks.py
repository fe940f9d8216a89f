"""What the model server tells when a batch has ended, signed as Standard Webhooks 1.0.0 says.

It is a hint to look at a job now, and changes nothing else: sent twice, late or by a replay it does no more than a look
that was due anyway, and one that is lost costs a few seconds.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial

from django.conf import settings
from django.db import transaction
from standardwebhooks import Webhook, WebhookVerificationError

from commerce.descriptions import jobs
from commerce.descriptions.models import DescriptionJob
from shared.api.errors import ApiError

LARGEST_BODY = 64 * 1024
NOT_SIGNED = "The message is not signed by the model server, or is older than five minutes."


def receive(*, body: bytes, headers: Mapping[str, str], now: datetime) -> None:
    """Has the job looked after whose batch the message is about. Raises ApiError 400 for a message that is not signed
    with our secret, that somebody has changed, or that is not of these five minutes; the database hears of none."""
    if batch_id := _verified(body, headers):
        _hasten(batch_id, now)


@transaction.atomic
def _hasten(batch_id: str, now: datetime) -> None:
    job = DescriptionJob.objects.select_for_update().filter(batch_id=batch_id, ended_at=None).first()
    if job is None:
        return  # another's batch, or a job that has ended
    DescriptionJob.objects.filter(pk=job.pk).update(look_at=now)
    transaction.on_commit(partial(jobs.wake, job_id=job.pk, now=now), robust=True)


def _verified(body: bytes, headers: Mapping[str, str]) -> str:
    """The batch that a message of the model server's is about; "" where it is about none."""
    if not settings.DESCRIPTIONS_WEBHOOK_SECRET or len(body) > LARGEST_BODY:
        raise ApiError(400, NOT_SIGNED)
    given = {name: headers.get(name, "") for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    try:
        Webhook(settings.DESCRIPTIONS_WEBHOOK_SECRET).verify(body, given)
        told = json.loads(body)
    except (WebhookVerificationError, ValueError):
        raise ApiError(400, NOT_SIGNED) from None
    data = told.get("data") if isinstance(told, dict) else None
    batch_id = data.get("batch_id") if isinstance(data, dict) else None
    return batch_id if isinstance(batch_id, str) else ""
