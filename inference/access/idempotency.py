"""Idempotency-Key for operations: a POST that is sent again with its key is answered again, and not done again.

The mechanism of `shared.api` for views that hold no thread. Answers are kept after the work, for
a day; only successes are, since what was refused costs nothing to refuse again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import structlog
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from shared.accounts.authentication import Principal
from shared.accounts.middleware.idempotency import KEY_HEADER, idempotency_owner, replay_response
from shared.api.idempotency import store
from shared.api.idempotency.fingerprints import request_fingerprint
from shared.api.models import KeyedRequest
from shared.serving.db_threads import run_in_db_thread

MAX_STORED_RESPONSE_BYTES = 4 * 1024 * 1024
RETRY_DELAYS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0)  # while another runs; then 409
LEASE_RENEWAL_INTERVAL: timedelta = store.CLAIM_TIMEOUT / 4

logger = structlog.get_logger(__name__)
_going_on: set[asyncio.Task[None]] = set()  # keys that are given back for clients who have left


def has_idempotency_key(request: HttpRequest) -> bool:
    return KEY_HEADER in request.headers


async def run_idempotently(
    request: HttpRequest, principal: Principal, run: Callable[[], Awaitable[HttpResponseBase]]
) -> HttpResponseBase:
    """What `run` answers, or has answered to the same request before.

    ApiError 400: the key is none, or came with another body; 409: the first request with it still runs. An answer of
    more than LARGEST_KEPT bytes is not kept.
    """
    scope = store.idempotency_scope(
        who=idempotency_owner(principal), method="POST", path=request.path, key=request.headers[KEY_HEADER]
    )
    row = await _claim(scope, await asyncio.to_thread(request_fingerprint, request), principal.user.pk)
    if row.status is not None:
        return replay_response(row)
    async with _claimed(row):
        response = await run()
        if (
            response.status_code < 300
            and isinstance(response, HttpResponse)
            and len(response.content) <= MAX_STORED_RESPONSE_BYTES
        ):
            try:
                await run_in_db_thread(_keep, row, response)
            except DatabaseError as error:  # the client has its answer, and need not ask again
                logger.warning("answer_not_kept", reason=type(error).__name__)
        return response


def _keep(row: KeyedRequest, response: HttpResponse) -> None:
    if store.store_response(row=row, response=response):
        store.enforce_storage_limit(row=row, response=response)


async def _claim(scope: str, digest: str, user_id: int) -> KeyedRequest:
    await run_in_db_thread(store.delete_expired_keys, scope=scope, now=timezone.now())
    for wait_s in (*RETRY_DELAYS_SECONDS, None):
        row = await run_in_db_thread(
            store.try_claim_key, scope=scope, fingerprint=digest, now=timezone.now(), user_id=user_id
        )
        if row is not None:
            return row
        if wait_s is not None:
            await asyncio.sleep(wait_s)
    raise store.in_progress_error()


@contextlib.asynccontextmanager
async def _claimed(row: KeyedRequest) -> AsyncIterator[None]:
    """The key is ours for as long as this lasts, and given back at the end unless an answer was kept."""
    renewing = asyncio.create_task(_renew(row))
    try:
        yield
    finally:
        renewing.cancel()
        task = asyncio.create_task(_release(row))
        _going_on.add(task)
        task.add_done_callback(_going_on.discard)
        await asyncio.shield(task)


async def _renew(row: KeyedRequest) -> None:
    while True:
        await asyncio.sleep(LEASE_RENEWAL_INTERVAL.total_seconds())
        with contextlib.suppress(DatabaseError):
            await run_in_db_thread(store.renew_claim, row=row, now=timezone.now())


async def _release(row: KeyedRequest) -> None:
    """A row that has its answer stays."""
    try:
        await run_in_db_thread(store.release_claim, row=row)
    except DatabaseError as error:  # then it runs out by itself
        logger.warning("key_not_released", reason=type(error).__name__)
