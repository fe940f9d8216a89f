"""Database calls from coroutines."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
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


async def run_in_request_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in the request's thread, and close its database connection at once.

    The request may last for minutes, and there are more requests than connections. In tests, which roll back, the
    connection stays open.
    """

    def call() -> R:
        try:
            return function(*args, **kwargs)
        finally:
            if not connection.in_atomic_block:
                connection.close()

    return await sync_to_async(call)()
