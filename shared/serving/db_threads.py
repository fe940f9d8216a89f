"""Database calls from coroutines."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")


async def run_in_db_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in a worker thread, and close that thread's database connection afterwards.

    Unlike `database_sync_to_async`, it never reuses the request's thread, so a task may use it after its request ended.
    """

    def call() -> R:
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    return await asyncio.to_thread(call)
