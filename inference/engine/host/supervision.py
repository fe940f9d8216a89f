"""The host's end of the line to one model process: hear what it says, and notice when it says nothing any more."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from inference.engine.errors import EngineError
from inference.engine.host.launcher import ModelProcess
from inference.engine.ipc import BrokenFrame, frames
from inference.engine.ipc.frames import Frame
from inference.engine.model_status import LoadReport


class Health(msgspec.Struct, frozen=True):
    """A model process is pinged every `interval` seconds; one that is silent for `patience` seconds is killed."""

    interval: float = 5.0
    patience: float = 30.0


async def watch(
    process: ModelProcess,
    health: Health,
    *,
    loaded: Callable[[LoadReport], Awaitable[None]],
    hear: Callable[[Frame], None],
) -> EngineError | None:
    """Until the process ends or is killed. Returns why it would not load, if it or `loaded` said so.

    loaded: awaited with the report when it is ready. hear: gets what it says from then on.
    """
    try:
        answer = await process.channel.receive()
        if isinstance(answer, frames.Failed):
            return frames.error_from(answer)
        if isinstance(answer, frames.Started):
            await loaded(answer.report)
            await _listen(process, health, hear)
    except EngineError as error:
        process.kill("there is no room for it")
        return error
    except TimeoutError:
        process.kill(f"it did not answer for {health.patience:g} s")
    except BrokenFrame as error:
        process.kill(str(error))
    return None


async def _listen(process: ModelProcess, health: Health, hear: Callable[[Frame], None]) -> None:
    """Until its line is closed. TimeoutError: it says nothing any more."""
    pinging = asyncio.create_task(_ping(process, health.interval))
    try:
        while True:
            async with asyncio.timeout(health.patience):
                frame = await process.channel.receive()
            if frame is None:
                return
            hear(frame)
    finally:
        pinging.cancel()


async def _ping(process: ModelProcess, interval: float) -> None:
    while True:
        process.channel.send(frames.Ping())
        await asyncio.sleep(interval)
