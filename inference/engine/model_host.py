"""The model host: one a run folder. It starts and ends model processes as its clients say."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from inference.engine import frames
from inference.engine.channel import BrokenFrame, Channel
from inference.engine.client import HOST_SOCKET
from inference.engine.errors import EngineError, InvalidRequest, ModelNotLoaded
from inference.engine.frames import Frame
from inference.engine.hosted_model import Health, HostedModel
from inference.engine.launcher import Launcher
from inference.engine.process import ModelSpec
from inference.engine.request import LoadOptions, LoadReport, ModelState

LOADER = "inference.engine.loading:load_model"
_END_SECONDS = 1.0
MAX_SOCKET_PATH = 107  # what Linux allows


class ModelHost:
    """Knows every model that was loaded since it started and not unloaded."""

    def __init__(self, run_dir: Path, loader: str, health: Health) -> None:
        self._run_dir = run_dir
        self._loader = loader
        self._health = health
        self._launcher = Launcher(preload=loader.partition(":")[0])
        self._models: dict[str, HostedModel] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self.stopping = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one command. A client that leaves changes nothing: the command is carried out."""
        channel = Channel(reader, writer)
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        try:
            await channel.greet()
            command = await channel.receive()
            if command is not None:
                channel.send(await self._answer(command))
        except BrokenFrame as error:
            channel.send(frames.failed(0, InvalidRequest(str(error))))
        finally:
            await channel.closed()

    async def end_all(self) -> None:
        """All models end, and whoever waits for one is answered."""
        await asyncio.gather(*(model.end(force=True) for model in self._models.values()))
        if self._serving:
            await asyncio.wait(self._serving, timeout=_END_SECONDS)

    async def _answer(self, command: Frame) -> Frame:
        try:
            match command:
                case frames.Load(model_id, path, options):
                    return frames.Started(await self._load(model_id, path, options))
                case frames.Unload(model_id, force):
                    await self._unload(self._known(model_id), force=force)
                case frames.Find(model_id):
                    return frames.Found(str(await self._known(model_id).find()))
                case frames.ListModels():
                    return frames.Models(tuple(model.status for model in self._models.values()))
                case frames.StopHost():
                    self.stopping.set()
                case _:
                    raise BrokenFrame(f"{type(command).__name__} is no command to a model host.")
        except EngineError as error:
            return frames.failed(0, error)
        return frames.Done()

    async def _load(self, model_id: str, path: str, options: LoadOptions) -> LoadReport:
        """Whoever asks for what is loading or loaded shares it; another path or other options replace it."""
        spec, replaced = self._spec(model_id, path, options), None
        while (model := self._models.get(model_id)) is not None:
            if model.spec == spec and model.state in (ModelState.LOADING, ModelState.LOADED):
                break
            replaced = model.spec if model.state is ModelState.LOADED else None
            await self._unload(model, force=False)
        else:
            model = self._start(spec)
        try:
            return await asyncio.shield(model.ready)
        except InvalidRequest:  # the options were wrong, not the model: all is as it was before
            self._forget(model)
            if replaced is not None and model_id not in self._models:
                self._start(replaced)
            raise

    def _start(self, spec: ModelSpec) -> HostedModel:
        model = self._models[spec.model_id] = HostedModel(spec, self._launcher, self._health)
        return model

    async def _unload(self, model: HostedModel, *, force: bool) -> None:
        await model.end(force=force)
        self._forget(model)

    def _known(self, model_id: str) -> HostedModel:
        model = self._models.get(model_id)
        if model is None:
            raise ModelNotLoaded(f"{model_id} is not loaded; load it first.", state=ModelState.UNLOADED)
        return model

    def _forget(self, model: HostedModel) -> None:
        if self._models.get(model.spec.model_id) is model:
            del self._models[model.spec.model_id]

    def _spec(self, model_id: str, path: str, options: LoadOptions) -> ModelSpec:
        name = hashlib.blake2b(model_id.encode(), digest_size=6).hexdigest()
        socket = self._run_dir / f"{name}.sock"
        return ModelSpec(model_id=model_id, path=path, options=options, socket=str(socket), loader=self._loader)


def run_host(run_dir: Path, *, loader: str = LOADER, health: Health | None = None) -> None:
    """Run until SIGTERM, SIGINT or a client's stop. Where a host runs already, say so and return.

    `loader` is "module:function" with the signature of `loading.load_model`. ValueError: the folder's path is too long.
    """
    run_dir = run_dir.absolute()
    if len(os.fsencode(run_dir)) > MAX_SOCKET_PATH - 24:
        raise ValueError(
            f"{run_dir} is too long a path for Unix sockets; choose one under {MAX_SOCKET_PATH - 24} bytes."
        )
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    run_dir.chmod(0o700)
    with _sole_host(run_dir) as alone:
        if alone:
            for stale in run_dir.glob("*.sock"):
                stale.unlink()
            asyncio.run(_host(run_dir, loader, health or Health()))
        else:
            print(f"A model host runs already in {run_dir}; this one is not needed.", flush=True)


@contextlib.contextmanager
def _sole_host(run_dir: Path) -> Iterator[bool]:
    with (run_dir / "host.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


async def _host(run_dir: Path, loader: str, health: Health) -> None:
    host = ModelHost(run_dir, loader, health)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, host.stopping.set)
    socket = run_dir / HOST_SOCKET
    listener = await asyncio.start_unix_server(host.serve, path=socket)
    socket.chmod(0o600)
    print(f"Model host ready in {run_dir}", flush=True)
    await host.stopping.wait()
    listener.close()
    socket.unlink(missing_ok=True)
    await host.end_all()
