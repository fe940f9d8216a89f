"""Waiting for what happens in threads and timers."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  what happens in threads
        await asyncio.sleep(0.005)
