"""What batches keep about a person: what they asked models, and what was answered."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from inference.batches.models import Batch, BatchRequest, BatchResult
from inference.batches.services import cancel_batch, forget_batch
from shared.accounts.models import User
from shared.accounts.person_rules import Rule


def _erase(user: User, now: datetime) -> None:
    theirs = Batch.objects.filter(user=user)
    theirs.update(webhook_url="")  # nobody is told that they end
    for batch_pk in theirs.values_list("pk", flat=True):
        cancel_batch(batch_pk=batch_pk, now=now)
        forget_batch(batch_pk=batch_pk)


def _requests_and_results(user: User) -> "dict[str, QuerySet[Any]]":
    return {
        "inference_batches.BatchRequest.batch": BatchRequest.objects.filter(batch__user=user),
        "inference_batches.BatchResult.request": BatchResult.objects.filter(request__batch__user=user),
    }


RULES = (Rule(Batch, "user", _erase, more=_requests_and_results),)
