"""Making a batch once, however often it is asked for with the same Idempotency-Key."""

from datetime import datetime

from django.http import HttpRequest, HttpResponse

from inference.access.operations import json_response
from inference.openai_batches.models import FileBatch
from inference.openai_batches.services import create_file_batch
from inference.openai_batches.wire import wire_batch
from inference.protocol.openai_batches import BatchBody
from shared.accounts.authentication import Principal
from shared.api.fingerprints import fingerprint
from shared.api.idempotency import claim, keep, release, scope_of
from shared.api.idempotent_requests import HEADER, name_of, replayed


def accept_file_batch(*, request: HttpRequest, caller: Principal, body: BatchBody, now: datetime) -> HttpResponse:
    """The batch and, with a key, the answer to be given again, in one transaction."""
    if HEADER not in request.headers:
        return _response(create_file_batch(caller=caller, body=body, now=now))
    scope = scope_of(who=name_of(caller), method="POST", path=request.path, key=request.headers[HEADER])
    row = claim(scope=scope, fingerprint=fingerprint(request), now=now)
    if row.status is not None:
        return replayed(row)

    def keep_answer(made: FileBatch) -> None:
        keep(row=row, response=_response(made))

    try:
        return _response(create_file_batch(caller=caller, body=body, now=now, with_it=keep_answer))
    finally:
        release(row=row)  # unless it has an answer now


def _response(made: FileBatch) -> HttpResponse:
    return json_response(wire_batch(made))
