"""Supervision of a model process by the host: its messages, and health checks."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from inference.engine.errors import EngineError
from inference.engine.host.launcher import ModelProcess
from inference.engine.ipc import FrameError, frames
from inference.engine.ipc.frames import Frame
from inference.engine.model_status import LoadReport


class HealthCheck(msgspec.Struct, frozen=True):
    """Health checks of a model process. interval: seconds between pings. timeout: seconds of silence until a kill."""

    interval: float = 5.0
    timeout: float = 30.0


async def supervise(
    process: ModelProcess,
    health_check: HealthCheck,
    *,
    on_loaded: Callable[[LoadReport], Awaitable[None]],
    on_frame: Callable[[Frame], None],
) -> EngineError | None:
    """Supervise a process until it ends or is killed. Return the error of its load, or None.

    on_loaded: awaited with the report of the load; an EngineError that it raises ends the process.
    on_frame: called with each later message.
    """
    try:
        reply = await process.channel.receive()
        if isinstance(reply, frames.ErrorReply):
            return frames.error_from(reply)
        if isinstance(reply, frames.ModelReady):
            await on_loaded(reply.report)
            await _receive_frames(process, health_check, on_frame)
    except EngineError as error:
        process.kill("it exceeds the memory budget")
        return error
    except TimeoutError:
        process.kill(f"it did not answer for {health_check.timeout:g} s")
    except FrameError as error:
        process.kill(str(error))
    return None


async def _receive_frames(process: ModelProcess, health_check: HealthCheck, on_frame: Callable[[Frame], None]) -> None:
    """Receive messages until the connection is closed. Raise TimeoutError if the process is silent."""
    pinging = asyncio.create_task(_ping(process, health_check.interval))
    try:
        while True:
            async with asyncio.timeout(health_check.timeout):
                frame = await process.channel.receive()
            if frame is None:
                return
            on_frame(frame)
    finally:
        pinging.cancel()


async def _ping(process: ModelProcess, interval: float) -> None:
    while True:
        process.channel.send(frames.Ping())
        await asyncio.sleep(interval)
