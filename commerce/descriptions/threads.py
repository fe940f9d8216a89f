"""The database from a coroutine."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """What `work` answers, done in the request's thread. Its connection goes back to the pool at once: the text that it
    is done for may take twenty seconds, and there are more of those than connections."""

    @wraps(work)
    def done() -> R:
        try:
            return work(*arguments, **named)
        finally:
            if not connection.in_atomic_block:  # as it is where tests roll back what they wrote
                connection.close()

    return await sync_to_async(done)()
