"""Accepting a batch once, however often it is sent with the same Idempotency-Key."""

from datetime import datetime

import msgspec
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from inference.batches.intake import ReadBatch
from inference.batches.models import Batch
from inference.batches.services import create_batch
from inference.protocol.batch import BatchAccepted, BatchState
from shared.accounts.authentication import Principal
from shared.api.fingerprints import fingerprint
from shared.api.idempotency import claim, keep, release, scope_of
from shared.api.idempotent_requests import HEADER, REPLAYED, name_of


def accept_batch(*, request: HttpRequest, caller: Principal, asked: ReadBatch, now: datetime) -> HttpResponse:
    """The batch and, with a key, the answer to be given again, in one transaction."""
    if HEADER not in request.headers:
        return _accept(caller, asked, now)
    scope = scope_of(who=name_of(caller), method="POST", path=request.path, key=request.headers[HEADER])
    row = claim(scope=scope, fingerprint=fingerprint(request), now=now)
    if row.status is not None:
        headers = {REPLAYED: "true"}
        return HttpResponse(bytes(row.body), status=row.status, content_type=row.content_type, headers=headers)
    try:
        with transaction.atomic():
            response = _accept(caller, asked, now)
            keep(row=row, response=response)
    finally:
        release(row=row)  # unless it has an answer now
    return response


def _accept(caller: Principal, asked: ReadBatch, now: datetime) -> HttpResponse:
    batch = create_batch(
        user=caller.user,
        kind=Batch.Kind.NATIVE,
        model_id=asked.model_id,
        parameters=asked.parameters,
        requests=asked.requests,
        now=now,
    )
    answer = BatchAccepted(
        batch_id=batch.batch_id,
        status=BatchState(batch.status),
        total_requests=batch.total,
        created=int(batch.created_at.timestamp()),
    )
    return HttpResponse(msgspec.json.encode(answer), content_type="application/json")
