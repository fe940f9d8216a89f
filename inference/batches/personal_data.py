"""Personal data in batches: the user's requests to models, and the answers."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from inference.batches.models import Batch, BatchRequest, BatchResult
from inference.batches.services import cancel_batch, delete_batch
from shared.accounts.models import User
from shared.personal_data import PersonalDataRule


def _erase(user: User, now: datetime) -> None:
    batches = Batch.objects.filter(user=user)
    batches.update(webhook_url="")  # the cancellation below must notify no one
    for batch_pk in batches.values_list("pk", flat=True):
        cancel_batch(batch_pk=batch_pk, now=now)
        delete_batch(batch_pk=batch_pk)


def _requests_and_results(user: User) -> "dict[str, QuerySet[Any]]":
    return {
        "inference_batches.BatchRequest.batch": BatchRequest.objects.filter(batch__user=user),
        "inference_batches.BatchResult.request": BatchResult.objects.filter(request__batch__user=user),
    }


RULES = (PersonalDataRule(Batch, "user", _erase, related_rows=_requests_and_results),)
