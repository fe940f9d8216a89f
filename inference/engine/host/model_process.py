"""The model process: loads a model, serves clients on its socket and follows the host's commands until it ends."""

import asyncio
import ctypes
import importlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from inference.engine.core_budget import CoreShare, join_budget
from inference.engine.errors import EngineError, ModelLoadFailed
from inference.engine.external import SOCKET_VARIABLE
from inference.engine.host.logs import start_logging
from inference.engine.ipc import Channel, ModelInterface, ModelServer, frames
from inference.engine.model_status import LoadOptions
from inference.engine.outputs import GenerationOutput

Emit = Callable[[list[GenerationOutput]], None]
Loader = Callable[[str, Path, LoadOptions, Emit, Path | None], ModelInterface]

NICENESS = 5  # a web process, which computes for milliseconds at a time, goes first

_PR_SET_PDEATHSIG = 1


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a model process. loader: "module:function", imported in the process.

    base: path of the base model, if the model is an adapter.
    environment: variables of this process, beside those of the host.
    """

    model_id: str
    path: str
    base: str | None
    options: LoadOptions
    socket: str
    loader: str
    environment: tuple[tuple[str, str], ...] = ()


def die_with_parent(signum: signal.Signals) -> None:
    """Make the kernel send `signum` to this process when its parent ends. It does nothing outside Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)


def run_model(spec: ModelSpec, host: socket.socket, stderr: socket.socket, cores: CoreShare | None) -> None:
    """Run a model process to its end. host: connection to the host."""
    os.nice(NICENESS)
    join_budget(cores)
    os.environ.update({SOCKET_VARIABLE: spec.socket, **dict(spec.environment)})
    os.dup2(stderr.fileno(), 2)
    stderr.close()
    start_logging(logging.WARNING)
    asyncio.run(_serve(spec, host))
    sys.stdout.flush()
    os._exit(0)  # does not wait for threads of libraries


async def _serve(spec: ModelSpec, host: socket.socket) -> None:
    channel = Channel(*await asyncio.open_unix_connection(sock=host))
    server = ModelServer(spec.model_id, spec.options.max_queue, channel.send)
    commands = asyncio.create_task(_follow_commands(channel, server))
    try:
        model = await asyncio.to_thread(_load, spec, server.emit)
    except EngineError as error:
        channel.send(frames.error_reply(0, error))
    else:
        await server.open(model, Path(spec.socket))
        channel.send(frames.ModelReady(model.report))
        await commands
        await server.close()
    await channel.wait_closed()


def _load(spec: ModelSpec, emit: Emit) -> ModelInterface:
    module, _, function = spec.loader.partition(":")
    load = cast(Loader, getattr(importlib.import_module(module), function))
    try:
        return load(spec.model_id, Path(spec.path), spec.options, emit, Path(spec.base) if spec.base else None)
    except EngineError:
        raise
    except Exception as error:
        raise ModelLoadFailed(f"{spec.model_id} could not be loaded: {type(error).__name__}: {error}") from error


async def _follow_commands(host: Channel, server: ModelServer) -> None:
    """Follow the host's commands until the model is stopped or drained. End the process if the host is gone."""
    drained = asyncio.create_task(server.drained())
    while True:
        receiving = asyncio.create_task(host.receive())
        await asyncio.wait({receiving, drained}, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            return
        match receiving.result():
            case frames.Ping():
                host.send(frames.Pong(server.cache_bytes))
            case frames.Retire():
                host.send(frames.RetireReply(server.drain_if_idle()))
            case frames.Drain():
                server.drain()
            case frames.Stop():
                return
            case _:
                os._exit(1)
