"""Clients: HostClient loads and unloads models through the host; EngineClient sends requests to loaded models."""

import asyncio
import threading
from pathlib import Path
from typing import TypeVar

from inference.engine.errors import EngineDied, EngineError, HostUnavailable
from inference.engine.ipc import frames
from inference.engine.ipc.channel import FrameError, connect
from inference.engine.ipc.connection import Connection, GenerationStream
from inference.engine.ipc.frames import ErrorReply, Frame
from inference.engine.model_status import EngineStats, LoadOptions, LoadReport, ModelStatus
from inference.engine.outputs import EmbeddingResult, ScoringResult, TokenizationResult
from inference.engine.requests import EmbeddingRequest, GenerationRequest, ScoringRequest, TokenizationRequest

HostReply = TypeVar("HostReply", bound=Frame)
Key = tuple[asyncio.AbstractEventLoop, str, int | None]

HOST_SOCKET = "host.sock"
_CONNECT_ATTEMPTS = 5
_CONNECT_PAUSE_SECONDS = 0.1


class HostClient:
    """Commands to the model host of a run folder, each on its own short connection. Works in any event loop.

    Every command raises HostUnavailable if no host answers.
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
        base: Path | None = None,
    ) -> LoadReport:
        """Load the model at the absolute `path`, and return when it is ready. The load continues if the caller leaves.

        A loaded model with the same options is returned at once; with other options it is drained and reloaded.

        revision: number of the operators' desired state of the model.
        background: nobody waits for the model, so it evicts no other.
        base: absolute path of the base model, if the model is an adapter.
        Raise ModelLoadFailed with the reason, and `retry_after` during a cooldown; InvalidRequest for options that the
        model does not support, and it keeps its current ones; EngineOverloaded if there is no memory now.
        """
        base_path = str(base) if base else None
        command = frames.Load(model_id, str(path), options or LoadOptions(), revision, background, base_path)
        return (await self._call(command, frames.ModelReady)).report

    async def use(
        self, model_id: str, path: Path, options: LoadOptions, *, revision: int = 0, base: Path | None = None
    ) -> LoadReport:
        """Load a model for a request, with these options or others, and return when it is ready.

        Raise ModelNotLoaded if requests do not load it (see `HostOptions`), else as `load` does.
        """
        command = frames.Use(model_id, str(path), options, revision, str(base) if base else None)
        return (await self._call(command, frames.ModelReady)).report

    async def unload(self, model_id: str, *, force: bool = False) -> None:
        """Unload a model after its running requests, or cancel them with `force`. Return when its process has ended.

        Raise ModelNotLoaded if the host does not know the model.
        """
        await self._call(frames.Unload(model_id, force), frames.Acknowledgement)

    async def models(self) -> list[ModelStatus]:
        """Return the status of every model that was loaded and not unloaded."""
        return list((await self._call(frames.ListModels(), frames.Models)).models)

    async def find(self, model_id: str, replica: int | None = None) -> frames.ModelSocket:
        """Return the socket of a replica of a loaded model, by default of any that is ready.

        For any, wait a short time if the whole model restarts.
        Raise ModelNotLoaded with `state`, and `retry_after` in seconds while it loads or unloads.
        """
        return await self._call(frames.Find(model_id, replica), frames.ModelSocket)

    async def stop(self) -> None:
        """End the host and all its models. Running requests are cancelled."""
        await self._call(frames.StopHost(), frames.Acknowledgement)

    async def _call(self, command: Frame, kind: type[HostReply]) -> HostReply:
        try:
            channel = await connect(self._socket)
        except FrameError as error:
            raise HostUnavailable(f"The server on {self._socket} is no model host of this version. {error}") from error
        except OSError as error:
            raise HostUnavailable(
                f"No model host answers on {self._socket}. Start the inference service, or a host alone with "
                f"`python -m inference.engine.host --run-dir {self._socket.parent}`."
            ) from error
        try:
            channel.send(command)
            reply = await channel.receive()
        finally:
            await channel.wait_closed()
        if isinstance(reply, ErrorReply):
            raise frames.error_from(reply)
        if not isinstance(reply, kind):
            raise HostUnavailable("The model host ended before it answered; try again when it runs.")
        return reply


class EngineClient:
    """Requests to loaded models. One per process serves all event loops; each has a connection per model and replica.

    replica: of a call, the number of the process to ask; None: any that is ready.
    Every call raises ModelNotLoaded (details.state), EngineDied and HostUnavailable.
    """

    def __init__(self, run_dir: Path) -> None:
        self._host = HostClient(run_dir)
        self._lock = threading.Lock()
        self._connections: dict[Key, asyncio.Task[Connection]] = {}

    async def generate(
        self, model_id: str, request: GenerationRequest, *, replica: int | None = None
    ) -> GenerationStream:
        """Start a generation, and return its stream once the engine has accepted the request.

        Raise InvalidRequest, ContextLengthExceeded or EngineOverloaded if it rejects it.
        """
        return await (await self._connection(model_id, replica)).generate(request)

    async def embed(self, model_id: str, request: EmbeddingRequest, *, replica: int | None = None) -> EmbeddingResult:
        """Return the embeddings of a request. Raise InvalidRequest or ContextLengthExceeded.

        Cancelling the caller cancels the request.
        """
        connection = await self._connection(model_id, replica)
        return (await connection.call(lambda call: frames.Embed(call, request), frames.EmbedReply)).result

    async def score(self, model_id: str, request: ScoringRequest, *, replica: int | None = None) -> ScoringResult:
        """Return the scores of a request. Raise InvalidRequest or ContextLengthExceeded.

        Cancelling the caller cancels the request.
        """
        connection = await self._connection(model_id, replica)
        return (await connection.call(lambda call: frames.Score(call, request), frames.ScoreReply)).result

    async def tokenize(self, model_id: str, request: TokenizationRequest) -> TokenizationResult:
        """Return the tokens of a text or of a conversation. Raise InvalidRequest or ContextLengthExceeded."""
        connection = await self._connection(model_id)
        return (await connection.call(lambda call: frames.Tokenize(call, request), frames.Tokens)).result

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        """Return the text of token ids. Raise InvalidRequest for an unknown id."""
        connection = await self._connection(model_id)
        return (await connection.call(lambda call: frames.Detokenize(call, tuple(ids)), frames.Text)).text

    async def replicas(self, model_id: str) -> int:
        """Return how many replicas a loaded model has."""
        return (await self._connection(model_id)).replicas

    async def stats(self, model_id: str, *, replica: int | None = None) -> EngineStats:
        """Return the counters of a replica, by default the sums of those of all replicas that are ready."""
        if replica is not None:
            return await self._stats(model_id, replica)
        numbers: list[int | None] = [None]
        if (count := await self.replicas(model_id)) > 1:
            numbers = [*range(count)]
        found = await asyncio.gather(*(self._stats(model_id, number) for number in numbers), return_exceptions=True)
        stats = [one for one in found if isinstance(one, EngineStats)]
        for error in found:
            if isinstance(error, BaseException) and not (stats and isinstance(error, EngineError)):
                raise error
        return sum(stats[1:], start=stats[0])

    async def _stats(self, model_id: str, replica: int | None) -> EngineStats:
        connection = await self._connection(model_id, replica)
        return (await connection.call(frames.GetStats, frames.Stats)).stats

    async def close(self) -> None:
        """Close this event loop's connections, which cancels their requests."""
        loop = asyncio.get_running_loop()
        with self._lock:
            keys = [key for key in self._connections if key[0] is loop]
            tasks = [self._connections.pop(key) for key in keys]
        for task in tasks:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is None:
                await task.result().close()

    async def _connection(self, model_id: str, replica: int | None = None) -> Connection:
        """Return this event loop's connection to a replica of a model; the first caller opens it."""
        loop = asyncio.get_running_loop()
        key = (loop, model_id, replica)
        with self._lock:
            for other in [other for other in self._connections if other[0].is_closed()]:
                del self._connections[other]
            task = self._connections.get(key)
            if task is None:
                task = self._connections[key] = loop.create_task(self._connect(key))
                task.add_done_callback(lambda opened: self._drop_failed(key, opened))
        return await asyncio.shield(task)

    async def _connect(self, key: Key) -> Connection:
        """Connect to a model, with retries: a crash may be visible here before the host knows of it."""
        task = asyncio.current_task()
        _, model_id, replica = key
        for _ in range(_CONNECT_ATTEMPTS):
            found = await self._host.find(model_id, replica)
            try:
                channel = await connect(Path(found.socket))
            except (FrameError, OSError):
                await asyncio.sleep(_CONNECT_PAUSE_SECONDS)
            else:
                return Connection(channel, on_lost=lambda: self._drop(key, task), replicas=found.replicas)
        raise EngineDied(f"The process of {model_id} does not answer on its socket; try again in a few seconds.")

    def _drop_failed(self, key: Key, task: asyncio.Task[Connection]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._drop(key, task)

    def _drop(self, key: Key, task: asyncio.Task[Connection] | None) -> None:
        with self._lock:
            if self._connections.get(key) is task:
                self._connections.pop(key, None)
