"""Accepting a batch once, however often it is sent with the same Idempotency-Key."""

from datetime import datetime

import msgspec
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from msgspec import UNSET
from msgspec.structs import replace

from inference.batches.intake import ReadBatch
from inference.batches.models import Batch
from inference.batches.services import create_batch
from inference.protocol.batch import BatchAccepted, BatchState
from inference.webhooks.services import check_one_off, default_secret
from shared.accounts.authentication import Principal
from shared.api.fingerprints import fingerprint
from shared.api.idempotency import claim, keep, release, scope_of
from shared.api.idempotent_requests import HEADER, REPLAYED, name_of


def accept_batch(*, request: HttpRequest, caller: Principal, asked: ReadBatch, now: datetime) -> HttpResponse:
    """The batch and, with a key, the answer to be given again, in one transaction. What is given again has no secret
    in it: that is shown once."""
    if HEADER not in request.headers:
        _check_webhook(asked)
        with transaction.atomic():
            accepted, secret = _create(caller, asked, now)
        return _response(_with_secret(accepted, secret))
    scope = scope_of(who=name_of(caller), method="POST", path=request.path, key=request.headers[HEADER])
    row = claim(scope=scope, fingerprint=fingerprint(request), now=now)
    if row.status is not None:
        headers = {REPLAYED: "true"}
        return HttpResponse(bytes(row.body), status=row.status, content_type=row.content_type, headers=headers)
    try:
        _check_webhook(asked)
        with transaction.atomic():
            accepted, secret = _create(caller, asked, now)
            keep(row=row, response=_response(accepted))
    finally:
        release(row=row)  # unless it has an answer now
    return _response(_with_secret(accepted, secret))


def _check_webhook(asked: ReadBatch) -> None:
    """ApiError 400 for an address that is no good. It may take a moment: not in the transaction."""
    if asked.webhook_url:
        check_one_off(url=asked.webhook_url)


def _create(caller: Principal, asked: ReadBatch, now: datetime) -> tuple[BatchAccepted, str | None]:
    """The answer, and the user's secret where this is their first webhook."""
    batch = create_batch(
        user=caller.user,
        api_key=caller.api_key,
        kind=Batch.Kind.NATIVE,
        model_id=asked.model_id,
        parameters=asked.parameters,
        requests=asked.requests,
        tokens=asked.tokens,
        webhook_url=asked.webhook_url or "",
        now=now,
    )
    accepted = BatchAccepted(
        batch_id=batch.batch_id,
        status=BatchState(batch.status),
        total_requests=batch.total,
        created=int(batch.created_at.timestamp()),
    )
    return accepted, default_secret(user=caller.user, now=now) if asked.webhook_url else None


def _with_secret(accepted: BatchAccepted, secret: str | None) -> BatchAccepted:
    return replace(accepted, webhook_secret=secret or UNSET)


def _response(accepted: BatchAccepted) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(accepted), content_type="application/json")
