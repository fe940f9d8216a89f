"""Idempotency-Key for operations: a repeated POST with the same key returns the stored response.

It is the mechanism of `shared` for async views. Successful responses are stored for a day: after the work, or by the
handler in the transaction of its work, with `store_keyed_response`. Errors are not, since a repeated request fails
again without cost.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import TypeGuard

import structlog
from django.db import Error as DatabaseError
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from shared.accounts.middleware.idempotency import KeyedPost, replay_response
from shared.api.idempotency import store
from shared.api.models import KeyedRequest
from shared.serving.db_threads import run_in_db_thread

MAX_STORED_RESPONSE_BYTES = 4 * 1024 * 1024
LEASE_RENEWAL_INTERVAL: timedelta = store.CLAIM_TIMEOUT / 4

logger = structlog.get_logger(__name__)
_running_releases: set[asyncio.Task[None]] = set()  # for clients that have disconnected


async def run_idempotently(post: KeyedPost, run: Callable[[], Awaitable[HttpResponseBase]]) -> HttpResponseBase:
    """Return the response of `run`, or the stored response of the same request.

    A response of more than MAX_STORED_RESPONSE_BYTES is not stored. Raise ApiError 400 for an invalid key and for one
    that was used with another body, and 409 while the first request with the key is running.
    """
    row = await post.first_result(lambda: _claim(post))
    if row.status is not None:
        return replay_response(row)
    post.request.keyed_request = row  # type: ignore[attr-defined]
    async with _hold_claim(row):
        response = await run()
        if row.status is None and _is_worth_storing(response):
            try:
                await run_in_db_thread(_store, row, response)
            except DatabaseError as error:  # the client has its response all the same
                logger.warning("response_not_stored", reason=type(error).__name__)
        return response


async def _claim(post: KeyedPost) -> KeyedRequest | None:
    """Claim the key as `KeyedPost.claim` does, and release what is claimed after the client has left."""
    claiming = asyncio.ensure_future(run_in_db_thread(post.claim))
    try:
        return await asyncio.shield(claiming)
    except asyncio.CancelledError:
        claiming.add_done_callback(_release_unused)
        raise


def _release_unused(claiming: "asyncio.Future[KeyedRequest | None]") -> None:
    if not claiming.cancelled() and claiming.exception() is None and (row := claiming.result()):
        _start_release(row)


def _is_worth_storing(response: HttpResponseBase) -> TypeGuard[HttpResponse]:
    return (
        isinstance(response, HttpResponse)
        and response.status_code < 300
        and len(response.content) <= MAX_STORED_RESPONSE_BYTES
    )


def _store(row: KeyedRequest, response: HttpResponse) -> None:
    if store.store_response(row=row, response=response):
        store.enforce_storage_limit(row=row, response=response)


@contextlib.asynccontextmanager
async def _hold_claim(row: KeyedRequest) -> AsyncIterator[None]:
    """Renew the claim of the key while the block runs, and release it at the end unless a response was stored."""
    renewing = asyncio.create_task(_renew(row))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.shield(_start_release(row))


async def _renew(row: KeyedRequest) -> None:
    while True:
        await asyncio.sleep(LEASE_RENEWAL_INTERVAL.total_seconds())
        with contextlib.suppress(DatabaseError):
            await run_in_db_thread(store.renew_claim, row=row, now=timezone.now())


def _start_release(row: KeyedRequest) -> asyncio.Task[None]:
    task = asyncio.create_task(_release(row))
    _running_releases.add(task)
    task.add_done_callback(_running_releases.discard)
    return task


async def _release(row: KeyedRequest) -> None:
    """Release the claim. A row with a stored response stays."""
    try:
        await run_in_db_thread(store.release_claim, row=row)
    except DatabaseError as error:  # the claim expires
        logger.warning("key_not_released", reason=type(error).__name__)
