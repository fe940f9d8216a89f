"""The database for an event loop: one thread and one connection, and patience when it is only busy or away."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import structlog
from django.db import InterfaceError, OperationalError, connection

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

TRIES = 6
PAUSE_S = 1.0

logger = structlog.get_logger(__name__)


def _close() -> None:
    connection.close()  # looked up where it runs: each thread has its own


class DatabaseThread:
    """For the time of a block. Whatever is asked is one transaction, or can be done again."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batch-database")

    async def ask(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What `work` answers. Raises what the database raises when it stays away."""
        for left in reversed(range(TRIES)):
            try:
                return await self._run(partial(work, *args, **kwargs))
            except (OperationalError, InterfaceError) as error:
                logger.warning("batch_database_unavailable", reason=type(error).__name__, tries_left=left)
                await self._run(_close)
                if not left:
                    raise
            await asyncio.sleep(PAUSE_S)
        raise AssertionError("the last try answers or raises")

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._run(_close)
        self._thread.shutdown()
