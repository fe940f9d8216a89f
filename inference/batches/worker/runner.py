"""Work of one worker on one batch for a time slice of about a minute.

The run claims requests, keeps the engine busy, and records results in groups. When its slice is over it stops claiming
and finishes what it has, while a new message lets this worker or another one continue: batches take turns. It ends
early when the worker shuts down, and then requeues its running requests.
"""

import asyncio
import contextlib
import random
import threading
import time
import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone

from inference.batches import dispatch
from inference.batches.models import Batch, BatchRequest
from inference.batches.worker import leases, recording
from inference.batches.worker.completion import BACKOFF, CompletedRequests
from inference.batches.worker.database import DatabaseThread
from inference.batches.worker.execution import execute_request
from inference.batches.worker.recording import RequestOutcome
from inference.engine import EngineError
from inference.local.clients import engine
from inference.pools.cache import find_pool
from inference.pools.client import pool_client
from inference.protocol.errors import ErrorCode
from inference.usage import quotas

SLICE_SECONDS = (45.0, 60.0)  # random in between: runs of one batch must not all end at once
REDISPATCH_INTERVAL_SECONDS = 5.0
POLL_INTERVAL_SECONDS = 0.2
RENEW_INTERVAL_SECONDS = 5.0
EMPTY_QUEUE_DELAY_SECONDS = 1.0  # other workers may requeue requests
GROUP_DIVISOR = 4  # claim and record in groups of a quarter of the concurrency limit, or less at a poll
# Twice the model's slots: a waiting request follows each that ends at once.
REQUESTS_PER_SLOT = 2
MAX_CONCURRENCY = 256
DEFAULT_CONCURRENCY = 32
STATS_TIMEOUT_SECONDS = 5.0
IDLE_BACKOFF = timedelta(seconds=3)


def run_batch(*, batch_pk: int, worker: str, ending: threading.Event) -> None:
    """Work on the batch for one time slice, unless it has ended or backs off. `ending` ends the run early."""
    asyncio.run(_run(batch_pk, worker, ending))


async def get_concurrency_limit(model_id: str) -> int:
    """Return how many requests of a batch may be with the engine at once."""
    if pool := await find_pool(model_id):
        return min(DEFAULT_CONCURRENCY * len(pool.members), MAX_CONCURRENCY)
    try:
        async with asyncio.timeout(STATS_TIMEOUT_SECONDS):
            slots = (await engine().stats(model_id)).slots
    except (EngineError, TimeoutError):
        return DEFAULT_CONCURRENCY
    return min(max(slots, 1) * REQUESTS_PER_SLOT, MAX_CONCURRENCY)


async def _run(batch_pk: int, worker: str, ending: threading.Event) -> None:
    async with DatabaseThread() as database:
        lease_id = await database.run(leases.acquire_lease, batch_pk=batch_pk, worker=worker, now=timezone.now())
        if lease_id is None:
            return
        batch = await database.run(Batch.objects.get, pk=batch_pk)
        try:
            await BatchRun(batch, lease_id, database, ending).run()
        finally:
            await engine().close()
            await pool_client().close()


class BatchRun:
    """One lease, from its acquisition to its release.

    The requests claimed and not yet recorded never exceed the concurrency limit: a crash repeats at most that many.
    """

    def __init__(self, batch: Batch, lease_id: uuid.UUID, database: DatabaseThread, ending: threading.Event) -> None:
        self._batch = batch
        self._lease: dict[str, Any] = {"lease_id": lease_id, "batch_pk": batch.pk}
        self._database = database
        self._ending = ending
        self._running: dict[asyncio.Task[RequestOutcome], BatchRequest] = {}
        self._finished: list[asyncio.Task[RequestOutcome]] = []
        self._any_finished = asyncio.Event()
        self._unrecorded: list[RequestOutcome] = []
        self._retry_after: float | None = None  # None while the model is available
        self._limit = 0
        self._claimed_count = 0
        self._is_claiming = True  # False once the slice is over
        self._is_lease_valid = True
        self._is_isolating = False
        self._renewed_at = self._redispatched_at = self._queue_empty_until = time.monotonic()

    async def run(self) -> None:
        """Work until the slice is over and all claimed requests have ended. Always release the lease."""
        slice_ends_at = time.monotonic() + random.uniform(*SLICE_SECONDS)  # noqa: S311 jitter
        self._limit = await get_concurrency_limit(self._batch.model_id)
        try:
            while self._is_lease_valid and not self._ending.is_set():
                if self._is_claiming and time.monotonic() > slice_ends_at:
                    await self._stop_claiming()
                await self._fill()
                if not self._running:
                    break
                await self._complete_finished()
                await self._record_and_renew_if_due()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._release()

    async def _fill(self) -> None:
        """Claim and start requests up to the limit. Isolated requests come last, one at a time."""
        if not self._is_claiming or self._retry_after is not None or not self._is_claim_due():
            return
        claimed: list[BatchRequest] = []
        if not self._is_isolating:
            claimed = await self._claim_within_quota(self._limit - len(self._running))
        if not claimed and not self._running and self._is_lease_valid:
            await self._record()  # an isolated request may crash this process
            claimed = await self._database.run(
                leases.claim_isolated_request, **self._lease, model_id=self._batch.model_id
            )
            self._is_isolating = True
        self._claimed_count += len(claimed)
        for request in claimed:
            task = asyncio.create_task(execute_request(self._batch, request))
            task.add_done_callback(self._note_finished)
            self._running[task] = request

    def _is_claim_due(self) -> bool:
        """Return whether a group fits below the limit, and the queue was not empty a moment ago."""
        free = self._limit - len(self._running)
        is_group_free = free * GROUP_DIVISOR >= self._limit
        return is_group_free and (not self._running or time.monotonic() > self._queue_empty_until)

    async def _claim_within_quota(self, limit: int) -> list[BatchRequest]:
        """Claim requests. Fail them, and all that follow, while the user's monthly quota is used up."""
        while claimed := await self._record_and_claim(limit):
            message = await self._database.run(
                quotas.find_used_up_message,
                user_id=self._batch.user_id,
                api_key_id=self._batch.api_key_id,
                now=timezone.now(),
            )
            if not message:
                break
            self._claimed_count += len(claimed)
            code = ErrorCode.RATE_LIMIT_EXCEEDED
            self._unrecorded += [
                RequestOutcome(request=request.pk, error_code=code, error_message=message) for request in claimed
            ]
            if self._ending.is_set():
                return []
        return claimed

    async def _record_and_claim(self, limit: int) -> list[BatchRequest]:
        outcomes, self._unrecorded = self._unrecorded, []
        claimed = await self._database.run(
            recording.record_and_claim, **self._lease, outcomes=outcomes, limit=limit, now=timezone.now()
        )
        self._renewed_at = time.monotonic()
        self._is_lease_valid = claimed is not None
        if len(claimed or []) < limit:
            self._queue_empty_until = self._renewed_at + EMPTY_QUEUE_DELAY_SECONDS
        return claimed or []

    def _note_finished(self, task: asyncio.Task[RequestOutcome]) -> None:
        self._finished.append(task)
        self._any_finished.set()

    async def _complete_finished(self) -> None:
        """Wait for requests to finish, POLL_INTERVAL_SECONDS at most, and complete those that have."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_INTERVAL_SECONDS):
                await self._any_finished.wait()
        self._any_finished.clear()
        finished, self._finished = self._finished, []
        group = CompletedRequests.from_tasks({task: self._running.pop(task) for task in finished})
        self._unrecorded += group.outcomes
        if group.retry_after is not None:
            self._retry_after = max(self._retry_after or 0.0, group.retry_after)
        await self._requeue(group)

    async def _requeue(self, group: CompletedRequests) -> None:
        """Requeue the requests that have no final outcome."""
        now = timezone.now()
        if group.crashed:
            await self._database.run(recording.requeue_crashed, **self._lease, requests=group.crashed, now=now)
        for outcome in group.timed_out:
            await self._database.run(recording.retry_or_fail, **self._lease, outcome=outcome, now=now)
        if group.rejected:
            await self._database.run(leases.requeue_requests, **self._lease, requests=group.rejected)
            self._limit = max(1, len(self._running))
            if not self._running and self._retry_after is None:  # no end of ours frees a place
                self._retry_after = BACKOFF.first_seconds

    async def _record_and_renew_if_due(self) -> None:
        now = time.monotonic()
        is_group_full = len(self._unrecorded) * GROUP_DIVISOR >= self._limit
        if is_group_full or (self._unrecorded and now > self._renewed_at + POLL_INTERVAL_SECONDS):
            await self._record()
        elif now > self._renewed_at + RENEW_INTERVAL_SECONDS:
            await self._renew()
        if self._is_claiming and now > self._redispatched_at + REDISPATCH_INTERVAL_SECONDS:
            self._redispatched_at = now
            await self._redispatch()

    async def _record(self) -> None:
        if self._unrecorded and self._is_lease_valid:
            outcomes, self._unrecorded = self._unrecorded, []
            self._is_lease_valid = await self._database.run(
                recording.record_outcomes, **self._lease, outcomes=outcomes, now=timezone.now()
            )
            self._renewed_at = time.monotonic()

    async def _renew(self, *, stop_claiming: bool = False) -> None:
        lease_id = self._lease["lease_id"]
        self._is_lease_valid = await self._database.run(
            leases.renew_lease, lease_id=lease_id, now=timezone.now(), stop_claiming=stop_claiming
        )
        self._renewed_at = time.monotonic()

    async def _stop_claiming(self) -> None:
        """Only finish claimed requests from now on; another run continues the batch."""
        self._is_claiming = False
        await self._renew(stop_claiming=True)
        await self._redispatch()

    async def _redispatch(self) -> None:
        """Call for another worker if requests are pending."""
        if await self._database.run(leases.has_pending, batch_pk=self._batch.pk):
            await self._database.run(dispatch.dispatch_batch, batch_pk=self._batch.pk, now=timezone.now())

    async def _release(self) -> None:
        """Record, release the lease, and redispatch; back off first if the model is unavailable or the run was idle."""
        await self._record()
        await self._database.run(leases.release_lease, **self._lease)
        delay = None if self._claimed_count else IDLE_BACKOFF  # the next run would find nothing to claim either
        if self._retry_after is not None:
            seconds = BACKOFF.seconds(self._batch.backoff_count + 1, at_least=self._retry_after)
            delay = timedelta(seconds=seconds)
        if delay is not None:
            await self._database.run(recording.back_off, batch_pk=self._batch.pk, delay=delay, now=timezone.now())
        await self._redispatch()
