"""A worker's turn at a batch: claims requests, keeps the engine's batch full, and writes results in groups.

A turn claims for about a minute, and finishes what it has; another goes on from there, so that batches take turns. It
ends early when the worker is told to end, and then hands back what is running.
"""

import asyncio
import contextlib
import random
import threading
import time
import uuid
from typing import Any

from django.utils import timezone

from inference.batches import dispatch, leases, outcomes
from inference.batches.answering import Answer, Job
from inference.batches.endings import Ended, Endings
from inference.batches.leases import Claimed
from inference.batches.models import Batch
from inference.batches.outcomes import Outcome
from inference.batches.patience import DatabaseThread
from inference.batches.places import find_places
from inference.protocol.errors import Code
from inference.registry.processes import engine, remote
from inference.usage import quotas

CLAIMS_FOR_S = (45.0, 60.0)  # at random in between, so that turns at one batch do not all end at once
SHARES_EVERY_S = 5.0
LOOKS_EVERY_S = 0.2
RENEWS_EVERY_S = 5.0
DRY_FOR_S = 1.0  # where others have all that is left, some may come back
A_PART = 4  # of the room is claimed at once, and written at once; less when a look is due


def run_batch(*, batch_pk: int, worker: str, ending: threading.Event) -> None:
    """A turn at this batch, if there is one to be had. `ending` ends it early."""
    asyncio.run(_run(batch_pk, worker, ending))


async def _run(batch_pk: int, worker: str, ending: threading.Event) -> None:
    async with DatabaseThread() as database:
        lease_id = await database.ask(leases.open_lease, batch_pk=batch_pk, worker=worker, now=timezone.now())
        if lease_id is None:
            return
        batch = await database.ask(Batch.objects.get, pk=batch_pk)
        try:
            await Turn(batch, lease_id, database, ending).take()
        finally:
            await engine().close()
            await remote().close()


class Turn:
    """One lease, from its opening to its end. What is claimed and not yet written is never more than there is room for:
    so much is done again when the worker dies."""

    def __init__(self, batch: Batch, lease_id: uuid.UUID, database: DatabaseThread, ending: threading.Event) -> None:
        self._batch = batch
        self._job = Job.of(batch)
        self._mine: dict[str, Any] = {"lease_id": lease_id, "batch_pk": batch.pk}
        self._whose: dict[str, Any] = {"user_id": batch.user_id, "api_key_id": batch.api_key_id}
        self._database = database
        self._ending = ending
        self._running: dict[asyncio.Task[Answer], Claimed] = {}
        self._ended: list[asyncio.Task[Answer]] = []
        self._news = asyncio.Event()
        self._done: list[Outcome] = []
        self._endings = Endings()
        self._room = 0
        self._claimed = 0
        self._claims = True  # False: others go on from here
        self._holds = True
        self._is_lonely = False
        self._renewed = self._shared = self._dry_until = time.monotonic()

    async def take(self) -> None:
        """Whatever requests and engines do, and also where this is cancelled, the lease is given back."""
        claims_until = time.monotonic() + random.uniform(*CLAIMS_FOR_S)  # noqa: S311 no secret
        self._room = await find_places(self._job.model_id)
        try:
            while self._holds and not self._ending.is_set():
                if self._claims and time.monotonic() > claims_until:
                    await self._hand_over()
                await self._fill()
                if not self._running:
                    break
                await self._settle()
                await self._keep_up()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._leave()

    async def _fill(self) -> None:
        """Write what is done; claim what there is room for. What was running in a crash comes last, one at a time."""
        if not self._claims or self._endings.pause is not None or not self._is_due():
            return
        claimed: list[Claimed] = []
        if not self._is_lonely:
            claimed = await self._claim_within_month(self._room - len(self._running))
        if not claimed and not self._running and self._holds:
            await self._write()  # what is lonely may be what ends processes
            claimed = await self._database.ask(leases.claim_lonely, **self._mine, model_id=self._job.model_id)
            self._is_lonely = True
        self._claimed += len(claimed)
        for request in claimed:
            answer = self._job.answer(request.body, f"batch-{request.pk}-{uuid.uuid4().hex[:12]}")
            task = asyncio.create_task(answer)
            task.add_done_callback(self._note_end)
            self._running[task] = request

    def _is_due(self) -> bool:
        """There is room; and where nothing was left a moment ago, that moment is over."""
        free = self._room - len(self._running)
        return free * A_PART >= self._room and (not self._running or time.monotonic() > self._dry_until)

    async def _write_and_claim(self, most: int) -> list[Claimed]:
        done, self._done = self._done, []
        claimed = await self._database.ask(
            outcomes.store_and_claim, **self._mine, outcomes=done, most=most, now=timezone.now()
        )
        self._renewed = time.monotonic()
        self._holds = claimed is not None
        if len(claimed or []) < most:
            self._dry_until = self._renewed + DRY_FOR_S
        return claimed or []

    def _note_end(self, task: asyncio.Task[Answer]) -> None:
        self._ended.append(task)
        self._news.set()

    async def _claim_within_month(self, most: int) -> list[Claimed]:
        """What is claimed when the tokens of the month are used up has failed."""
        while claimed := await self._write_and_claim(most):
            words = await self._database.ask(quotas.words_if_used_up, **self._whose, now=timezone.now())
            if not words:
                break
            self._claimed += len(claimed)
            code = Code.RATE_LIMIT_EXCEEDED
            self._done += [Outcome(request=one.pk, error_code=code, error_message=words) for one in claimed]
            if self._ending.is_set():
                return []
        return claimed

    async def _settle(self) -> None:
        """Wait for some to end, a moment at most, and do what each end asks for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOKS_EVERY_S):
                await self._news.wait()
        self._news.clear()
        ended, self._ended = self._ended, []
        sorted_out = self._endings.sort({task: self._running.pop(task) for task in ended})
        self._done += sorted_out.outcomes
        await self._return(sorted_out)

    async def _return(self, ended: Ended) -> None:
        """What did not come to an end is somebody's again, or has failed for good."""
        now = timezone.now()
        if ended.crashed:
            await self._database.ask(outcomes.give_up, **self._mine, requests=ended.crashed, now=now)
        for outcome in ended.late:
            await self._database.ask(outcomes.try_again, **self._mine, outcome=outcome, now=now)
        if ended.refused:
            await self._database.ask(leases.hand_back, **self._mine, requests=ended.refused)
            self._room = max(1, len(self._running))
            self._endings.note_full(is_idle=not self._running)

    async def _keep_up(self) -> None:
        """What is due: results to write, a sign of life, a call for others to help."""
        now = time.monotonic()
        if len(self._done) * A_PART >= self._room or (self._done and now > self._renewed + LOOKS_EVERY_S):
            await self._write()
        elif now > self._renewed + RENEWS_EVERY_S:
            await self._renew()
        if self._claims and now > self._shared + SHARES_EVERY_S:
            self._shared = now
            await self._wake()

    async def _write(self) -> None:
        """What is no longer ours is dropped, and so are we."""
        if self._done and self._holds:
            done, self._done = self._done, []
            self._holds = await self._database.ask(outcomes.store, **self._mine, outcomes=done, now=timezone.now())
            self._renewed = time.monotonic()

    async def _renew(self) -> None:
        lease_id = self._mine["lease_id"]
        self._holds = await self._database.ask(leases.renew, lease_id=lease_id, now=timezone.now())
        self._renewed = time.monotonic()

    async def _hand_over(self) -> None:
        """From now on only finish: another turn claims, of this worker or another one."""
        self._claims = False
        lease_id = self._mine["lease_id"]
        self._holds = await self._database.ask(leases.renew, lease_id=lease_id, now=timezone.now(), closes=True)
        await self._wake()

    async def _wake(self) -> None:
        if await self._database.ask(leases.has_pending, batch_pk=self._batch.pk):
            await self._database.ask(dispatch.wake, batch_pk=self._batch.pk, now=timezone.now())

    async def _leave(self) -> None:
        """Who did nothing at all would do nothing again if it were sent at once."""
        await self._write()
        await self._database.ask(leases.close_lease, **self._mine)
        pause = self._endings.pause_after(self._batch.setbacks)
        if pause is None and not self._claimed:
            pause = self._endings.IDLE
        if pause is not None:
            await self._database.ask(outcomes.rest, batch_pk=self._batch.pk, pause=pause, now=timezone.now())
        await self._wake()
