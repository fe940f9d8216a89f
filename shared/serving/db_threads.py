"""Database calls from coroutines."""

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")


async def run_in_db_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in a worker thread, and close that thread's database connection afterwards.

    Unlike `database_sync_to_async`, it never reuses the request's thread, so a task may use it after its request ended.
    """

    return await asyncio.to_thread(closing_connection(function), *args, **kwargs)


def closing_connection(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that closes its thread's database connection afterwards."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    return call
