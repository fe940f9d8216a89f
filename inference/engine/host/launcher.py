"""Starts model processes: from a fork server that has torch and transformers imported, or fresh ones for the GPU."""

import asyncio
import contextlib
import multiprocessing
import os
import re
import signal
import socket
import threading
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess

from inference.engine.host.model_process import ModelSpec, run_model
from inference.engine.ipc import Channel

LAST_WORDS_BYTES = 4096
_LAST_WORDS_LINES = 3
_LAST_WORDS_CHARS = 500
_FOLDERS = re.compile(r"(?<![\w.~])~?/(?:[^/\s\"'|]+/)+")  # of absolute paths: they are told to whoever lists models
_PAUSES = (0.1, 0.5)  # before another try: a fork server that was just killed may still look alive

# Read when a library loads, so they are set before the fork server starts; what the environment says already stays.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": str(min(2, os.cpu_count() or 1)),
    "MKL_NUM_THREADS": str(min(2, os.cpu_count() or 1)),
    "GOMP_SPINCOUNT": "2000",  # threads that spin for long fight the web process for its core
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
}


class LastWords:
    """A model process's stderr: passed on to ours, and its end kept, to be told when it crashes."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._tail = b""
        source.setblocking(False)
        asyncio.get_running_loop().add_reader(source, self._read)

    def finish(self) -> str:
        """Read what is left, stop, and return the end of it: a few lines, without the folders that they name."""
        while self._source.fileno() >= 0:
            self._read()
        lines = [line.strip() for line in self._tail.decode(errors="replace").split("\n")]
        words = " | ".join([line for line in lines if line][-_LAST_WORDS_LINES:])
        return _FOLDERS.sub("", words)[-_LAST_WORDS_CHARS:]

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = self._source.recv(65536)
        if not data:
            asyncio.get_running_loop().remove_reader(self._source)
            self._source.close()
        self._tail = (self._tail + data)[-LAST_WORDS_BYTES:]
        with contextlib.suppress(OSError):
            os.write(2, data)


class ModelProcess:
    """A started process. `channel` is the host's own line to it; `ended` resolves with its last words."""

    def __init__(self, process: ForkServerProcess | SpawnProcess, channel: Channel, last_words: LastWords) -> None:
        self._process = process
        self._last_words = last_words
        self._killed_because: str | None = None
        self.channel = channel
        self.pid = process.pid
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(process.sentinel, self._reap)

    def kill(self, why: str) -> None:
        """`why` is told as its last words. Nothing happens to one that has ended."""
        if not self.ended.done():
            self._killed_because = why
            self._process.kill()

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self.channel.abort()
        words = self._last_words.finish()
        how = self._killed_because or describe_exit(self._process.exitcode)
        self.ended.set_result(f"{how}: {words}" if words else how)


def describe_exit(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        names = {known.value: known.name for known in signal.Signals}
        return f"killed by {names.get(-exitcode, f'signal {-exitcode}')}"
    return f"exit status {exitcode}"


class Launcher:
    """`preload` is imported once, in the fork server, before any model is started."""

    def __init__(self, preload: str) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        os.environ["MODEL_HOST_PID"] = str(os.getpid())  # for fork_server.py
        self._forking: ForkServerContext = multiprocessing.get_context("forkserver")
        self._forking.set_forkserver_preload(["inference.engine.host.fork_server", preload])
        self._spawning: SpawnContext = multiprocessing.get_context("spawn")
        self._fork_server_pid: int | None = None
        self._warm = self._begin_warm_up()

    async def start(self, spec: ModelSpec) -> ModelProcess:
        """OSError, EOFError: the system has no room for another process."""
        failed = self._warm.done() and self._warm.exception() is not None
        if failed or self._fork_server_is_new():
            self._warm = self._begin_warm_up()
        await asyncio.shield(self._warm)
        for pause in _PAUSES:
            with contextlib.suppress(OSError, EOFError):
                return await self._start(spec)
            await asyncio.sleep(pause)
        return await self._start(spec)

    async def _start(self, spec: ModelSpec) -> ModelProcess:
        # CUDA does not survive a fork.
        context = self._spawning if spec.options.gpu_layers else self._forking
        ours, theirs = socket.socketpair()
        words, stderr = socket.socketpair()
        process = context.Process(target=run_model, args=(spec, theirs, stderr), daemon=True)
        try:
            with theirs, stderr:
                process.start()
        except BaseException:
            ours.close()
            words.close()
            raise
        channel = Channel(*await asyncio.open_unix_connection(sock=ours))
        return ModelProcess(process, channel, LastWords(words))

    def _begin_warm_up(self) -> asyncio.Future[None]:
        """The first start waits for the imports; after it, starting takes milliseconds and needs no thread.

        The fork server is started on this thread, because it dies with the thread that started it. The waiting thread
        is a daemon, so that the host can end before the imports do.
        """
        self._fork_server_is_new()
        loop = asyncio.get_running_loop()
        warm: asyncio.Future[None] = loop.create_future()
        threading.Thread(target=self._warm_up, args=(loop, warm), daemon=True).start()
        return warm

    def _fork_server_is_new(self) -> bool:
        """Sees to it that one runs, and says whether it is another than before: then it has yet to import torch."""
        forkserver.ensure_running()
        before, self._fork_server_pid = self._fork_server_pid, forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        return before != self._fork_server_pid

    def _warm_up(self, loop: asyncio.AbstractEventLoop, warm: asyncio.Future[None]) -> None:
        first = self._forking.Process(target=int)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the host has ended
            try:
                first.start()
                first.join()
            except (OSError, EOFError) as error:
                loop.call_soon_threadsafe(warm.set_exception, error)
            else:
                loop.call_soon_threadsafe(warm.set_result, None)
