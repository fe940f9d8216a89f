"""The thread of a worker process that runs background responses, many at once in one event loop."""

import asyncio
import contextlib
import threading
import time
from collections import Counter

import structlog
from django.db import DatabaseError
from django.utils import timezone

from inference.config.celery import ending
from inference.local.clients import engine
from inference.pools.client import pool_client
from inference.responses import services
from inference.responses.worker.claims import UserTurns
from inference.responses.worker.run import BackgroundRun
from shared.serving.db_threads import run_in_db_thread

MAX_RUNNING = 64
POLL_INTERVAL_SECONDS = 0.2
SWEEP_INTERVAL_SECONDS = 3.0
SHUTDOWN_TIMEOUT_SECONDS = 10.0

logger = structlog.get_logger(__name__)


class ResponseWorker:
    """The runner of background responses in this process."""

    def __init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="response-worker", daemon=True)
        self._tasks: dict[asyncio.Task[None], int] = {}  # with the id of the user of each
        self._turns = UserTurns()
        self._swept_at = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Wait until the thread has given back what it was running. `ending` is set."""
        if self._thread.is_alive():
            self._thread.join(SHUTDOWN_TIMEOUT_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        try:
            while not ending.is_set():
                try:
                    await self._claim()
                    await self._sweep_if_due()
                except DatabaseError as error:
                    self._swept_at = time.monotonic()  # writers first renew the leases that expired meanwhile
                    logger.warning("responses_not_claimed", reason=type(error).__name__)
                except Exception:  # this thread must survive: without it no background response would be run
                    logger.exception("responses_not_claimed")
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await engine().close()
            await pool_client().close()

    async def _claim(self) -> None:
        limit = MAX_RUNNING - len(self._tasks)
        if limit <= 0:
            return
        running = Counter(self._tasks.values())
        for claimed in await run_in_db_thread(self._turns.claim, limit=limit, now=timezone.now(), running=running):
            task = asyncio.create_task(BackgroundRun(claimed).run())
            self._tasks[task] = claimed.row.user_id
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()):
            logger.error("response_run_failed", exc_info=error)

    async def _sweep_if_due(self) -> None:
        if time.monotonic() < self._swept_at + SWEEP_INTERVAL_SECONDS:
            return
        self._swept_at = time.monotonic()
        for sweep in (services.end_all_interrupted, services.fail_expired, services.cancel_of_inactive_users):
            with contextlib.suppress(DatabaseError):
                await run_in_db_thread(sweep, now=timezone.now())


response_worker = ResponseWorker()
