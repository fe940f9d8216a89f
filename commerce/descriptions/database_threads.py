"""Database access from coroutines."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")


async def run_in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function in the request's thread, and return its connection to the pool at once.

    Writing a text takes up to twenty seconds, and there are more such requests than connections.
    """

    @wraps(function)
    def call() -> R:
        try:
            return function(*args, **kwargs)
        finally:
            if not connection.in_atomic_block:  # tests that roll back keep theirs
                connection.close()

    return await sync_to_async(call)()
