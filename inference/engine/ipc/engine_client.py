"""The clients' end: HostClient tells the model host what to load; EngineClient asks the loaded models."""

import asyncio
import threading
from pathlib import Path
from typing import TypeVar

from inference.engine.errors import EngineDied, HostUnavailable
from inference.engine.ipc import frames
from inference.engine.ipc.channel import BrokenFrame, connect
from inference.engine.ipc.connection import Connection, GenerationStream
from inference.engine.ipc.frames import Failed, Frame
from inference.engine.model_status import EngineStats, LoadOptions, LoadReport, ModelStatus
from inference.engine.outputs import EmbeddingResult
from inference.engine.requests import EmbeddingRequest, GenerationRequest

Answer = TypeVar("Answer", bound=Frame)
Key = tuple[asyncio.AbstractEventLoop, str]

HOST_SOCKET = "host.sock"
_CONNECT_TRIES = 5
_CONNECT_PAUSE = 0.1


class HostClient:
    """Commands to the model host of one run folder, each over a short connection of its own; for any event loop.

    Every command raises HostUnavailable when no host answers.
    """

    def __init__(self, run_dir: Path) -> None:
        self._socket = run_dir / HOST_SOCKET

    async def load(
        self,
        model_id: str,
        path: Path,
        options: LoadOptions | None = None,
        *,
        revision: int = 0,
        background: bool = False,
    ) -> LoadReport:
        """Returns when the model at the absolute `path` is ready. The load goes on when the caller leaves.

        The same again is answered at once; with other options the model is drained first, then loaded anew.
        revision: which of the operators' words on the model this is. background: nobody waits for it, so that it takes
        no other model's place.
        ModelLoadFailed has the reason, with `retry_after` while it is not tried again; InvalidRequest: this model
        cannot have these options, and runs on with the old; EngineOverloaded: there is no room for it just now.
        """
        command = frames.Load(model_id, str(path), options or LoadOptions(), revision, background)
        return (await self._ask(command, frames.Started)).report

    async def use(self, model_id: str, path: Path, options: LoadOptions, *, revision: int = 0) -> LoadReport:
        """For a request that has come: returns when the model is loaded, with these options or others.

        ModelNotLoaded: it is not loaded by a request (see `HostOptions`). Else as `load`.
        """
        return (await self._ask(frames.Use(model_id, str(path), options, revision), frames.Started)).report

    async def unload(self, model_id: str, *, force: bool = False) -> None:
        """Returns when the process is gone. Running requests finish first, or are cancelled with `force`.

        ModelNotLoaded: the host does not know this model.
        """
        await self._ask(frames.Unload(model_id, force), frames.Done)

    async def models(self) -> list[ModelStatus]:
        return list((await self._ask(frames.ListModels(), frames.Models)).models)

    async def find(self, model_id: str) -> Path:
        """The socket of a loaded model's process; while one is started again after a crash, it is waited for a while.

        ModelNotLoaded: details has `state`, and `retry_after` in seconds while it loads or unloads.
        """
        return Path((await self._ask(frames.Find(model_id), frames.Found)).socket)

    async def stop(self) -> None:
        """End the host and all its models; running requests are cancelled."""
        await self._ask(frames.StopHost(), frames.Done)

    async def _ask(self, command: Frame, kind: type[Answer]) -> Answer:
        try:
            channel = await connect(self._socket)
        except BrokenFrame as error:
            raise HostUnavailable(
                f"What answers on {self._socket} is no model host of this version. {error}"
            ) from error
        except OSError as error:
            raise HostUnavailable(
                f"No model host answers on {self._socket}. Start the inference service, or a host alone with "
                f"`python -m inference.engine.host --run-dir {self._socket.parent}`."
            ) from error
        try:
            channel.send(command)
            answer = await channel.receive()
        finally:
            await channel.closed()
        if isinstance(answer, Failed):
            raise frames.error_from(answer)
        if not isinstance(answer, kind):
            raise HostUnavailable("The model host ended before it answered; ask again when it is back.")
        return answer


class EngineClient:
    """Asks loaded models. One per process serves all its event loops: each loop has one connection a model.

    Every call raises ModelNotLoaded (details.state), EngineDied and HostUnavailable.
    """

    def __init__(self, run_dir: Path) -> None:
        self._host = HostClient(run_dir)
        self._lock = threading.Lock()
        self._connections: dict[Key, asyncio.Task[Connection]] = {}

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        """Returns once the engine has accepted. InvalidRequest, ContextLengthExceeded, EngineOverloaded: it has not."""
        return await (await self._connection(model_id)).generate(request)

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        """InvalidRequest, ContextLengthExceeded: see the message. Leaving before the answer cancels."""
        connection = await self._connection(model_id)
        return (await connection.ask(lambda call: frames.Embed(call, request), frames.Embedded)).result

    async def tokenize(self, model_id: str, text: str) -> list[int]:
        connection = await self._connection(model_id)
        return list((await connection.ask(lambda call: frames.Tokenize(call, text), frames.Tokens)).ids)

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        connection = await self._connection(model_id)
        return (await connection.ask(lambda call: frames.Detokenize(call, tuple(ids)), frames.Text)).text

    async def stats(self, model_id: str) -> EngineStats:
        connection = await self._connection(model_id)
        return (await connection.ask(frames.GetStats, frames.Stats)).stats

    async def close(self) -> None:
        """Close this event loop's connections; what they had asked for is cancelled."""
        here = asyncio.get_running_loop()
        with self._lock:
            keys = [key for key in self._connections if key[0] is here]
            tasks = [self._connections.pop(key) for key in keys]
        for task in tasks:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is None:
                await task.result().close()

    async def _connection(self, model_id: str) -> Connection:
        """The connection to this model from this loop, made by the first that asks for it."""
        loop = asyncio.get_running_loop()
        key = (loop, model_id)
        with self._lock:
            for other in [other for other in self._connections if other[0].is_closed()]:
                del self._connections[other]
            task = self._connections.get(key)
            if task is None:
                task = self._connections[key] = loop.create_task(self._connect(key))
                task.add_done_callback(lambda made: self._drop_failed(key, made))
        return await asyncio.shield(task)

    async def _connect(self, key: Key) -> Connection:
        """A crash may be seen here before the host has seen it: then the host is asked again."""
        task = asyncio.current_task()
        model_id = key[1]
        for _ in range(_CONNECT_TRIES):
            socket = await self._host.find(model_id)
            try:
                channel = await connect(socket)
            except (BrokenFrame, OSError):
                await asyncio.sleep(_CONNECT_PAUSE)
            else:
                return Connection(channel, on_lost=lambda: self._drop(key, task))
        raise EngineDied(f"The process of {model_id} does not answer on its socket; ask again in a few seconds.")

    def _drop_failed(self, key: Key, task: asyncio.Task[Connection]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._drop(key, task)

    def _drop(self, key: Key, task: asyncio.Task[Connection] | None) -> None:
        with self._lock:
            if self._connections.get(key) is task:
                self._connections.pop(key, None)
