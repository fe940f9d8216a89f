"""Database access from an event loop: one thread with one connection, and retries while the database is unavailable."""

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

MAX_TRIES = 6
RETRY_DELAY_SECONDS = 1.0

logger = structlog.get_logger(__name__)


class DatabaseThread:
    """Context manager that runs database functions in its thread. Each must be one transaction, or safe to repeat."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batch-database")

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the function's result. Raises the database's error after MAX_TRIES."""
        for tries_left in reversed(range(MAX_TRIES)):
            try:
                return await self._submit(partial(function, *args, **kwargs))
            except (OperationalError, InterfaceError) as error:
                logger.warning("batch_database_failed", reason=type(error).__name__, tries_left=tries_left)
                await self._submit(_close_connection)
                if not tries_left:
                    raise
            await asyncio.sleep(RETRY_DELAY_SECONDS)
        raise AssertionError("the last try returns or raises")

    async def _submit(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._submit(_close_connection)
        self._executor.shutdown()


def _close_connection() -> None:
    connection.close()  # resolved in the executor's thread: connections are per thread
