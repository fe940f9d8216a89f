"""What a model process does from its fork to its end: load, open its door, obey the host, leave nothing running."""

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

from inference.engine.errors import EngineError, ModelLoadFailed
from inference.engine.host.logs import start_logging
from inference.engine.ipc import Channel, ModelServer, ServedModel, frames
from inference.engine.model_status import LoadOptions
from inference.engine.outputs import GenerationOutput

Loader = Callable[[str, Path, LoadOptions, Callable[[list[GenerationOutput]], None]], ServedModel]

_PR_SET_PDEATHSIG = 1


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a model process is started with. `loader` is "module:function", imported there."""

    model_id: str
    path: str
    options: LoadOptions
    socket: str
    loader: str


def die_with_parent(signum: signal.Signals) -> None:
    """Ask the kernel for `signum` when the parent ends, however it ends. Linux only; elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)


def run_model(spec: ModelSpec, host: socket.socket, last_words: socket.socket) -> None:
    """Run to the end in a fresh child. Its stderr is `last_words`; the host speaks over `host`."""
    die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the host ends its models itself
    os.dup2(last_words.fileno(), 2)
    last_words.close()
    start_logging(logging.WARNING)
    asyncio.run(_serve(spec, host))
    sys.stdout.flush()
    os._exit(0)  # no thread of a library may hold the end up


async def _serve(spec: ModelSpec, host: socket.socket) -> None:
    channel = Channel(*await asyncio.open_unix_connection(sock=host))
    server = ModelServer(spec.model_id, spec.options.max_queue, channel.send)
    obeying = asyncio.create_task(_obey(channel, server))
    try:
        model = await asyncio.to_thread(_load, spec, server.emit)
    except EngineError as error:
        channel.send(frames.failed(0, error))
    else:
        await server.open(model, Path(spec.socket))
        channel.send(frames.Started(model.report))
        await obeying
        await server.close()
    await channel.closed()


def _load(spec: ModelSpec, emit: Callable[[list[GenerationOutput]], None]) -> ServedModel:
    module, _, function = spec.loader.partition(":")
    load = cast(Loader, getattr(importlib.import_module(module), function))
    try:
        return load(spec.model_id, Path(spec.path), spec.options, emit)
    except EngineError:
        raise
    except Exception as error:
        raise ModelLoadFailed(f"{spec.model_id} could not be loaded: {type(error).__name__}: {error}") from error


async def _obey(host: Channel, server: ModelServer) -> None:
    """Returns when the host wants the end and it can come. A host that is gone ends everything here and now."""
    ending = asyncio.create_task(server.drained())
    while True:
        hearing = asyncio.create_task(host.receive())
        await asyncio.wait({hearing, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not hearing.done():
            return
        match hearing.result():
            case frames.Ping():
                host.send(frames.Pong())
            case frames.Retire():
                host.send(frames.Retired(server.retire()))
            case frames.Drain():
                server.drain()
            case frames.Stop():
                return
            case _:
                os._exit(1)
