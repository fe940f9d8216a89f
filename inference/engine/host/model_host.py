"""The model host: commands of its clients, and the models that it manages."""

import asyncio
import hashlib
import math
import time
from pathlib import Path

import msgspec

from inference.engine.errors import EngineError, EngineOverloaded, InvalidRequest, ModelLoadFailed, ModelNotLoaded
from inference.engine.formats import fingerprint
from inference.engine.host.backoff import Cooldowns
from inference.engine.host.launcher import Launcher
from inference.engine.host.load_plan import HostResources, LoadPlan
from inference.engine.host.managed_model import ManagedModel
from inference.engine.host.memory_budget import MemoryBudget
from inference.engine.host.memory_estimate import estimate_memory
from inference.engine.host.model_process import ModelSpec
from inference.engine.host.options import HostOptions
from inference.engine.host.supervision import HealthCheck
from inference.engine.ipc import Channel, FrameError, frames
from inference.engine.ipc.frames import Frame
from inference.engine.model_status import LoadReport, ModelState

_SHUTDOWN_SECONDS = 1.0


class ModelHost:
    """The models of one run folder, from their load until their unload. It alone decides which ones are in memory."""

    def __init__(self, run_dir: Path, loader: str, health_check: HealthCheck, options: HostOptions) -> None:
        self._run_dir = run_dir
        self._loader = loader
        self._options = options
        self._memory_budget = MemoryBudget(options)
        self._resources = HostResources(
            launcher=Launcher(preload=loader.partition(":")[0]),
            memory_budget=self._memory_budget,
            cooldowns=Cooldowns(options),
            options=options,
            health_check=health_check,
            measured_bytes={},
        )
        self._models: dict[str, ManagedModel] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._idle_unloading = asyncio.create_task(self._memory_budget.unload_unused())
        self.stopping = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection: one command and its reply. A command continues when its client disconnects."""
        channel = Channel(reader, writer)
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            await channel.handshake()
            command = await channel.receive()
            if command is not None:
                channel.send(await self._execute(command))
        except ConnectionError:
            pass  # the client left before its Hello
        except FrameError as error:
            channel.send(frames.error_reply(0, InvalidRequest(str(error))))
        finally:
            await channel.wait_closed()

    async def shut_down(self) -> None:
        """End all models and reply to the clients that wait for one."""
        self._idle_unloading.cancel()
        await asyncio.gather(*(model.unload(force=True) for model in self._models.values()))
        if self._connections:
            await asyncio.wait(self._connections, timeout=_SHUTDOWN_SECONDS)

    async def _execute(self, command: Frame) -> Frame:
        try:
            match command:
                case frames.Load():
                    return frames.ModelReady(await self._load(command))
                case frames.Use():
                    return frames.ModelReady(await self._use(command))
                case frames.Unload(model_id, force):
                    self._resources.cooldowns.reset(model_id)
                    await self._unload(self._get(model_id), force=force)
                case frames.Find(model_id, replica):
                    return await self._get(model_id).wait_for_socket(replica)
                case frames.ListModels():
                    return frames.Models(tuple(model.status for model in self._models.values()))
                case frames.StopHost():
                    self.stopping.set()
                case _:
                    raise FrameError(f"{type(command).__name__} is no command to a model host.")
        except EngineError as error:
            return frames.error_reply(0, error)
        return frames.Acknowledgement()

    async def _load(self, command: frames.Load) -> LoadReport:
        """Load a model, or share it if it is loaded or loading with the same path and options.

        Other options replace the model. A background load of an old revision does not: an operator changed it since.
        """
        plan = await self._plan(command, background=command.background)
        replaced: ManagedModel | None = None
        is_shared = False
        while (model := self._models.get(command.model_id)) is not None:
            is_stale = command.background and command.revision <= model.revision
            if model.is_active and (is_stale or model.plan.spec == plan.spec):
                model.revision = max(model.revision, command.revision)
                is_shared = True
                break
            self._check_cooldown(plan)
            replaced = model if model.is_loaded else None
            await self._unload(model)
        else:
            model = self._start(plan, command.revision)
        try:
            report = await asyncio.shield(model.ready)
            return msgspec.structs.replace(report, is_shared=is_shared)
        except (InvalidRequest, EngineOverloaded):  # the options are at fault, so the model before is restored
            if not model.is_suspended:
                self._forget(model)
            if replaced is not None and command.model_id not in self._models:
                self._start(replaced.plan, replaced.revision)
            raise

    async def _use(self, command: frames.Use) -> LoadReport:
        """Load a model for a request: suspended models as they were, others only with `autoload`.

        Raise ModelNotLoaded with the model's state if it is not loaded.
        """
        model = self._models.get(command.model_id)
        while model is not None and model.is_unloading and (model.is_suspended or self._options.autoload):
            await model.wait_ended()
            model = self._models.get(command.model_id)
        if model is None and not self._options.autoload:
            raise _not_loaded(command.model_id)
        if model is None or not model.is_active:
            model = await self._reload(command, model)
        elif model.is_first_loading and not (model.plan.for_request or self._options.autoload):
            raise model.not_loaded()
        report = await asyncio.shield(model.ready)
        model.reserve()
        return report

    async def _reload(self, command: frames.Use, ended: ManagedModel | None) -> ManagedModel:
        if ended is not None and not (ended.is_suspended or self._options.autoload):
            raise ended.not_loaded()
        if ended is not None and ended.is_suspended:
            command = msgspec.structs.replace(command, options=ended.plan.spec.options, revision=ended.revision)
        plan = await self._plan(command, for_request=True)
        current = self._models.get(command.model_id)
        if current is not None and current is not ended:
            return current
        return self._start(plan, command.revision)

    def _start(self, plan: LoadPlan, revision: int) -> ManagedModel:
        self._check_cooldown(plan)
        model = self._models[plan.spec.model_id] = ManagedModel(plan, revision, self._resources)
        return model

    def _check_cooldown(self, plan: LoadPlan) -> None:
        model_id = plan.spec.model_id
        seconds = math.ceil(self._resources.cooldowns.seconds_left(model_id, plan.content, time.monotonic()))
        if seconds:
            model = self._models.get(model_id)
            reason = (model and model.status.error) or "See the log."
            raise ModelLoadFailed(f"{model_id} failed and is tried again in {seconds} s. {reason}", retry_after=seconds)

    async def _unload(self, model: ManagedModel, *, force: bool = False) -> None:
        await model.unload(force=force)
        self._forget(model)

    def _get(self, model_id: str) -> ManagedModel:
        model = self._models.get(model_id)
        if model is None:
            raise _not_loaded(model_id)
        return model

    def _forget(self, model: ManagedModel) -> None:
        if self._models.get(model.model_id) is model:
            del self._models[model.model_id]

    async def _plan(
        self, command: frames.Load | frames.Use, *, for_request: bool = False, background: bool = False
    ) -> LoadPlan:
        """Return the plan of a load, with memory as measured before or estimated from the files."""
        path, options = Path(command.path), command.options
        base = Path(command.base) if command.base else None
        files = [path, *([base] if base else [])]
        contents = [(file, await asyncio.to_thread(fingerprint, file)) for file in files]
        replica_content = (msgspec.structs.replace(options, replicas=1), *contents)
        estimate = await asyncio.to_thread(estimate_memory, path, options, base)
        replica_bytes = self._resources.measured_bytes.get(replica_content, estimate.total_bytes)
        return LoadPlan(
            spec=self._spec(command),
            content=(options, *contents),
            replica_content=replica_content,
            memory_bytes=replica_bytes * options.replicas,
            load_bytes=min(replica_bytes, estimate.load_bytes) * options.replicas,
            for_request=for_request,
            background=background,
        )

    def _spec(self, command: frames.Load | frames.Use) -> ModelSpec:
        name = hashlib.blake2b(command.model_id.encode(), digest_size=6).hexdigest()
        return ModelSpec(
            model_id=command.model_id,
            path=command.path,
            base=command.base,
            options=command.options,
            socket=str(self._run_dir / f"{name}.sock"),
            loader=self._loader,
        )


def _not_loaded(model_id: str) -> ModelNotLoaded:
    return ModelNotLoaded(f"{model_id} is not loaded; load it first.", state=ModelState.UNLOADED)
