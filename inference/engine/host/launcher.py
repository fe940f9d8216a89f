"""The launcher of model processes, which are forked from a server with torch imported.

On a GPU too: CUDA survives a fork as long as it was not used before it, and the fork server only imports.
"""

import asyncio
import contextlib
import multiprocessing
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess

from inference.engine.core_budget import CoreBudget
from inference.engine.host.model_process import ModelSpec, run_model
from inference.engine.ipc import Channel
from inference.engine.processors import physical_cores

STDERR_TAIL_BYTES = 4096
_STDERR_TAIL_LINES = 3
_STDERR_TAIL_LENGTH = 500
_FOLDERS = re.compile(r"(?<![\w.~])~?/(?:[^/\s\"'|]+/)+")  # of absolute paths, which clients must not see
_RETRY_PAUSES = (0.1, 0.5)  # seconds; a fork server that was just killed may still look alive

# Libraries read these when they are imported, so they are set before the fork server starts. Existing values stay.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": str(physical_cores()),
    "MKL_NUM_THREADS": str(physical_cores()),
    "GOMP_SPINCOUNT": "2000",  # longer spinning slows the web process on the same core
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
}


class StderrTail:
    """The end of a model process's stderr, for the error of a crash. All of it is copied to the host's stderr."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._tail = b""
        source.setblocking(False)
        asyncio.get_running_loop().add_reader(source, self._read)

    def finish(self) -> str:
        """Read to the end and stop. Return the last lines, without the folders of paths."""
        while self._source.fileno() >= 0:
            self._read()
        lines = [line.strip() for line in self._tail.decode(errors="replace").split("\n")]
        text = " | ".join([line for line in lines if line][-_STDERR_TAIL_LINES:])
        return _FOLDERS.sub("", text)[-_STDERR_TAIL_LENGTH:]

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = self._source.recv(65536)
        if not data:
            asyncio.get_running_loop().remove_reader(self._source)
            self._source.close()
        self._tail = (self._tail + data)[-STDERR_TAIL_BYTES:]
        with contextlib.suppress(OSError):
            os.write(2, data)


class ModelProcess:
    """A started process.

    on_end: called once it has ended, however it did.
    channel: the host's connection to it.
    ended: resolves with the reason of its end.
    """

    def __init__(
        self, process: ForkServerProcess, channel: Channel, stderr_tail: StderrTail, on_end: Callable[[], None]
    ) -> None:
        self._process = process
        self._stderr_tail = stderr_tail
        self._on_end = on_end
        self._kill_reason: str | None = None
        self.channel = channel
        self.pid = process.pid
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(process.sentinel, self._reap)

    def kill(self, reason: str) -> None:
        """Kill the process unless it has ended."""
        if not self.ended.done():
            self._kill_reason = reason
            self._process.kill()

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._on_end()
        self.channel.abort()
        stderr = self._stderr_tail.finish()
        reason = self._kill_reason or describe_exit(self._process.exitcode)
        self.ended.set_result(f"{reason}: {stderr}" if stderr else reason)


def describe_exit(exitcode: int | None) -> str:
    """Return the exit status or the name of the signal as words."""
    if exitcode is not None and exitcode < 0:
        names = {member.value: member.name for member in signal.Signals}
        return f"killed by {names.get(-exitcode, f'signal {-exitcode}')}"
    return f"exit status {exitcode}"


class Launcher:
    """Starts model processes. preload: the module that the fork server imports before the first start."""

    def __init__(self, preload: str) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        os.environ["MODEL_HOST_PID"] = str(os.getpid())  # for fork_server.py
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["inference.engine.host.fork_server", preload])
        self._cores = CoreBudget(self._context, physical_cores())
        self._fork_server_pid: int | None = None
        self._warmed_up = self._begin_warm_up()

    async def start(self, spec: ModelSpec) -> ModelProcess:
        """Start a model process. Raise OSError or EOFError if the system cannot start another process."""
        has_failed = self._warmed_up.done() and self._warmed_up.exception() is not None
        if has_failed or self._ensure_fork_server():
            self._warmed_up = self._begin_warm_up()
        await asyncio.shield(self._warmed_up)
        for pause in _RETRY_PAUSES:
            with contextlib.suppress(OSError, EOFError):
                return await self._start(spec)
            await asyncio.sleep(pause)
        return await self._start(spec)

    async def _start(self, spec: ModelSpec) -> ModelProcess:
        host_end, model_end = socket.socketpair()
        stderr_source, stderr = socket.socketpair()
        share = self._cores.open_share()
        process = self._context.Process(target=run_model, args=(spec, model_end, stderr, share), daemon=True)
        try:
            with model_end, stderr:
                process.start()
        except BaseException:
            host_end.close()
            stderr_source.close()
            self._cores.close_share(share)
            raise
        channel = Channel(*await asyncio.open_unix_connection(sock=host_end))
        return ModelProcess(process, channel, StderrTail(stderr_source), partial(self._cores.close_share, share))

    def _begin_warm_up(self) -> asyncio.Future[None]:
        """Start a process that does nothing, in a thread: it waits for the fork server's imports.

        Later starts take milliseconds and need no thread. The fork server is started on the calling thread, because it
        ends with the thread that started it. The waiting thread is a daemon, so the host can end before the imports.
        """
        self._ensure_fork_server()
        loop = asyncio.get_running_loop()
        warmed_up: asyncio.Future[None] = loop.create_future()
        threading.Thread(target=self._warm_up, args=(loop, warmed_up), daemon=True).start()
        return warmed_up

    def _ensure_fork_server(self) -> bool:
        """Start the fork server if none runs. Return whether it is new and has to import torch first."""
        forkserver.ensure_running()
        before, self._fork_server_pid = self._fork_server_pid, forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        return before != self._fork_server_pid

    def _warm_up(self, loop: asyncio.AbstractEventLoop, warmed_up: asyncio.Future[None]) -> None:
        process = self._context.Process(target=int)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the host has ended
            try:
                process.start()
                process.join()
            except (OSError, EOFError) as error:
                loop.call_soon_threadsafe(warmed_up.set_exception, error)
            else:
                loop.call_soon_threadsafe(warmed_up.set_result, None)
