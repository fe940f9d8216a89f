"""The model host's decisions: what its clients ask for, and what becomes of it."""

import asyncio
import hashlib
import math
import time
from pathlib import Path

import msgspec

from inference.engine.errors import EngineError, EngineOverloaded, InvalidRequest, ModelLoadFailed, ModelNotLoaded
from inference.engine.formats import fingerprint
from inference.engine.host.backoff import CoolDowns
from inference.engine.host.launcher import Launcher
from inference.engine.host.load_plan import Host, Plan
from inference.engine.host.managed_model import HostedModel
from inference.engine.host.memory_budget import Room
from inference.engine.host.memory_estimate import estimate_memory
from inference.engine.host.model_process import ModelSpec
from inference.engine.host.options import HostOptions
from inference.engine.host.supervision import Health
from inference.engine.ipc import BrokenFrame, Channel, frames
from inference.engine.ipc.frames import Frame
from inference.engine.model_status import LoadOptions, LoadReport, ModelState

_END_SECONDS = 1.0


class ModelHost:
    """Knows every model that was loaded since it started and not unloaded. It alone decides which are loaded."""

    def __init__(self, run_dir: Path, loader: str, health: Health, policy: HostOptions) -> None:
        self._run_dir = run_dir
        self._loader = loader
        self._policy = policy
        self._room = Room(policy)
        self._shared = Host(
            launcher=Launcher(preload=loader.partition(":")[0]),
            room=self._room,
            cool_downs=CoolDowns(policy),
            policy=policy,
            health=health,
            costs={},
        )
        self._models: dict[str, HostedModel] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._tidying = asyncio.create_task(self._room.end_unused())
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
        self._tidying.cancel()
        await asyncio.gather(*(model.end(force=True) for model in self._models.values()))
        if self._serving:
            await asyncio.wait(self._serving, timeout=_END_SECONDS)

    async def _answer(self, command: Frame) -> Frame:
        try:
            match command:
                case frames.Load():
                    return frames.Started(await self._load(command))
                case frames.Use():
                    return frames.Started(await self._use(command))
                case frames.Unload(model_id, force):
                    self._shared.cool_downs.note_success(model_id)  # the operator begins anew
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

    async def _load(self, command: frames.Load) -> LoadReport:
        """Whoever asks for what is loading or loaded shares it; another path or other options replace it, unless they
        come of a wish that is no newer than what is loaded: an operator has said something else meanwhile."""
        plan = await self._plan(command, background=command.background)
        replaced: HostedModel | None = None
        while (model := self._models.get(command.model_id)) is not None:
            is_stale = command.background and command.revision <= model.revision
            if model.is_alive and (is_stale or model.plan.spec == plan.spec):
                model.revision = max(model.revision, command.revision)
                break
            self._check_cool_down(plan)
            replaced = model if model.is_loaded else None
            await self._unload(model)
        else:
            model = self._start(plan, command.revision)
        try:
            return await asyncio.shield(model.ready)
        except (InvalidRequest, EngineOverloaded):  # the model is not at fault: all is as it was before
            if not model.is_resting:
                self._forget(model)
            if replaced is not None and command.model_id not in self._models:
                self._start(replaced.plan, replaced.revision)
            raise

    async def _use(self, command: frames.Use) -> LoadReport:
        """Loaded as it is wanted, or as it was when it was ended for others. Who is refused is told the state."""
        model = self._models.get(command.model_id)
        while model is not None and model.is_leaving and (model.is_resting or self._policy.autoload):
            await model.ended()
            model = self._models.get(command.model_id)
        if model is None and not self._policy.autoload:
            raise _unknown(command.model_id)
        if model is None or not model.is_alive:
            model = await self._bring_back(command, model)
        elif model.is_starting and not (model.plan.for_request or self._policy.autoload):
            raise model.not_loaded()
        report = await asyncio.shield(model.ready)
        model.hold()
        return report

    async def _bring_back(self, command: frames.Use, ended: HostedModel | None) -> HostedModel:
        if ended is not None and not (ended.is_resting or self._policy.autoload):
            raise ended.not_loaded()
        if ended is not None and ended.is_resting:
            command = msgspec.structs.replace(command, options=ended.plan.spec.options, revision=ended.revision)
        plan = await self._plan(command, for_request=True)
        meanwhile = self._models.get(command.model_id)
        if meanwhile is not None and meanwhile is not ended:
            return meanwhile
        return self._start(plan, command.revision)

    def _start(self, plan: Plan, revision: int) -> HostedModel:
        self._check_cool_down(plan)
        model = self._models[plan.spec.model_id] = HostedModel(plan, revision, self._shared)
        return model

    def _check_cool_down(self, plan: Plan) -> None:
        model_id = plan.spec.model_id
        seconds = self._shared.cool_downs.seconds_left(model_id, plan.content, time.monotonic())
        if seconds:
            model = self._models.get(model_id)
            why = (model and model.status.error) or "See the log."
            raise ModelLoadFailed(
                f"{model_id} failed and is tried again in {math.ceil(seconds)} s. {why}", retry_after=math.ceil(seconds)
            )

    async def _unload(self, model: HostedModel, *, force: bool = False) -> None:
        await model.end(force=force)
        self._forget(model)

    def _known(self, model_id: str) -> HostedModel:
        model = self._models.get(model_id)
        if model is None:
            raise _unknown(model_id)
        return model

    def _forget(self, model: HostedModel) -> None:
        if self._models.get(model.model_id) is model:
            del self._models[model.model_id]

    async def _plan(
        self, command: frames.Load | frames.Use, *, for_request: bool = False, background: bool = False
    ) -> Plan:
        """What the model is to be; what it may take is read from its files, unless it was loaded so before."""
        path, options = Path(command.path), command.options
        content = (path, options, await asyncio.to_thread(fingerprint, path))
        memory_bytes = self._shared.costs.get(content)
        if memory_bytes is None:
            memory_bytes = await asyncio.to_thread(estimate_memory, path, options)
        return Plan(
            spec=self._spec(command.model_id, command.path, options),
            content=content,
            memory_bytes=memory_bytes,
            for_request=for_request,
            background=background,
        )

    def _spec(self, model_id: str, path: str, options: LoadOptions) -> ModelSpec:
        name = hashlib.blake2b(model_id.encode(), digest_size=6).hexdigest()
        socket = self._run_dir / f"{name}.sock"
        return ModelSpec(model_id=model_id, path=path, options=options, socket=str(socket), loader=self._loader)


def _unknown(model_id: str) -> ModelNotLoaded:
    return ModelNotLoaded(f"{model_id} is not loaded; load it first.", state=ModelState.UNLOADED)
