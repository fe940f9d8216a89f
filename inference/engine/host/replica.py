"""A replica of a model: a process that is started, supervised, restarted after a crash, and ended."""

import asyncio
import contextlib
import logging
import os
import time
from pathlib import Path
from typing import Protocol

import msgspec

from inference.engine.errors import EngineError, ModelLoadFailed
from inference.engine.external import STOA
from inference.engine.host.backoff import CrashLoop
from inference.engine.host.launcher import ModelProcess
from inference.engine.host.load_plan import HostResources
from inference.engine.host.model_process import ModelSpec
from inference.engine.host.supervision import supervise
from inference.engine.ipc import frames
from inference.engine.model_status import LoadOptions, LoadReport, ModelState, ReplicaStatus
from inference.engine.process_memory import tree_anonymous_bytes, tree_bytes
from inference.engine.processors import gpu_devices, physical_cores

logger = logging.getLogger(__name__)

STOP_SECONDS = 3.0
DEVICE_VARIABLE, THREADS_VARIABLE = "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"
DEVICE_OPTIONS = ("tensor_parallel_size", "tp_size")  # of engines: GPUs for one replica


class ReplicaOwner(Protocol):
    """The model of a replica. is_ending: its processes must end, and are not restarted."""

    @property
    def is_ending(self) -> bool: ...
    @property
    def was_loaded(self) -> bool: ...

    async def replica_loaded(self, replica: "Replica", report: LoadReport) -> None:
        """Note a loaded replica. An EngineError that it raises ends its process."""

    def replica_changed(self, replica: "Replica", activity: frames.Activity | None = None) -> None: ...

    async def retirement_decided(self) -> None:
        """Wait until it is decided whether the model ends, if its replicas were asked to."""


class Replica:
    """A process of a managed model, and those that follow it after crashes. number: 0 for the first."""

    def __init__(self, spec: ModelSpec, number: int, host: HostResources, owner: ReplicaOwner) -> None:
        self.number = number
        self.state = ModelState.LOADING
        self.socket = spec.socket if number == 0 else str(Path(spec.socket).with_suffix(f".{number}.sock"))
        self.is_busy = False
        self.cache_bytes = 0
        self.load_started_at = time.monotonic()
        self.error: str | None = None
        self._environment = replica_environment(number, spec.options)
        self._spec = msgspec.structs.replace(spec, socket=self.socket, environment=tuple(self._environment.items()))
        self._host = host
        self._owner = owner
        self._process: ModelProcess | None = None
        self._resident_at_start = self._anonymous_at_start = 0
        self._crashes = CrashLoop()
        self._was_useful = self._is_retired = False
        self._retire_reply: asyncio.Future[bool] | None = None

    @property
    def is_loaded(self) -> bool:
        return self.state is ModelState.LOADED

    @property
    def has_process(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def resident_bytes(self) -> int | None:
        return tree_bytes(self.pid) if self.pid else None

    @property
    def loaded_bytes(self) -> int:
        """The memory that its process has taken since its start."""
        return max(0, tree_bytes(self.pid) - self._resident_at_start) if self.pid else 0

    @property
    def taken_bytes(self) -> int:
        """The part of `loaded_bytes` that the system has no longer available."""
        return max(0, tree_anonymous_bytes(self.pid) - self._anonymous_at_start) if self.pid else 0

    @property
    def status(self) -> ReplicaStatus:
        return ReplicaStatus(
            number=self.number,
            state=self.state,
            pid=self.pid,
            error=self.error,
            device=self._environment.get(DEVICE_VARIABLE),
            resident_bytes=self.resident_bytes,
            cache_bytes=self.cache_bytes if self.is_loaded else None,
        )

    async def run(self) -> None:
        """Run one process after the other until the model ends. Raise the error of a failed load or of a crash loop."""
        while not self._owner.is_ending:
            try:
                reason = await self._run_process()
                if self._is_retired:
                    await self._owner.retirement_decided()
                elif not self._owner.is_ending:
                    self._record_crash(reason)
            except EngineError as error:
                self.state, self.error = ModelState.FAILED, error.message
                raise

    def retire(self) -> asyncio.Future[bool]:
        """Ask the loaded process to end if it has no requests. The result says whether it ends."""
        assert self._process is not None
        self._retire_reply = asyncio.get_running_loop().create_future()
        self._process.channel.send(frames.Retire())
        return self._retire_reply

    def end(self, *, force: bool) -> None:
        """End the process: after its running requests, or at once with `force` or if it loads."""
        if self._process is None:
            return
        if self.state in (ModelState.LOADED, ModelState.UNLOADING):
            self.state = ModelState.UNLOADING
            self._process.channel.send(frames.Stop() if force else frames.Drain())
        elif self.state is ModelState.LOADING:
            self.kill()

    def kill(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill("it was unloaded")

    async def _run_process(self) -> str:
        """Run one process from start to end, and return the reason of its end. Raise the error of its load."""
        self.state = ModelState.LOADING
        self._is_retired = False
        try:
            process = self._process = await self._host.launcher.start(self._spec)
        except (OSError, EOFError) as error:
            message = f"No process could be started for {self._spec.model_id}: {error}"
            raise ModelLoadFailed(message) from error
        self._resident_at_start = tree_bytes(process.pid)
        self._anonymous_at_start = tree_anonymous_bytes(process.pid)
        self._was_useful, self.cache_bytes = False, 0
        load_error: EngineError | None = None
        try:
            if self._owner.is_ending:  # since before it was started
                self.kill()
            load_error = await supervise(
                process, self._host.health_check, on_loaded=self._become_loaded, on_frame=self._handle_frame
            )
            await asyncio.wait({process.ended}, timeout=STOP_SECONDS)
        finally:
            process.kill("it did not end in time")
            reason = await process.ended
            self._process = None
            self._mark_ended()
        if load_error is not None and not self._owner.is_ending:
            raise load_error
        return reason

    def _mark_ended(self) -> None:
        self.is_busy = False
        self.state = ModelState.UNLOADED if self._owner.is_ending else ModelState.LOADING
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        if self._retire_reply is not None and not self._retire_reply.done():
            self._retire_reply.set_result(False)
        self._owner.replica_changed(self)

    async def _become_loaded(self, report: LoadReport) -> None:
        await self._owner.replica_loaded(self, report)

    def _handle_frame(self, frame: frames.Frame) -> None:
        activity: frames.Activity | None = None
        match frame:
            case frames.Activity(busy, _, finished):
                self.is_busy, self._was_useful = busy, finished > 0
                activity = frame
            case frames.Pong(cache_bytes):
                self.cache_bytes = cache_bytes
            case frames.RetireReply(is_ending):
                self._is_retired = is_ending
                if self._retire_reply is not None and not self._retire_reply.done():
                    self._retire_reply.set_result(is_ending)
        self._owner.replica_changed(self, activity)

    def _record_crash(self, reason: str) -> None:
        """Record a crash. Raise ModelLoadFailed if it ends a first load or is one of a crash loop."""
        model_id = self._spec.model_id
        logger.warning("engine.model_crashed model=%s replica=%d reason=%r", model_id, self.number, reason)
        self.load_started_at = time.monotonic()
        self.error = f"The model process ended ({reason})."
        if not self._owner.was_loaded:
            raise ModelLoadFailed(f"{model_id} could not be loaded. {self.error}")
        if self._crashes.record(self.load_started_at, was_useful=self._was_useful):
            raise ModelLoadFailed(f"{self.error} It crashed repeatedly within a short time.")


def replica_environment(number: int, options: LoadOptions) -> dict[str, str]:
    """Return the variables of one of several replicas: its part of the cores, and its own of several GPUs.

    With more replicas than GPUs, some share one. Replicas of Stoa's engine on the CPU have none: see `CoreBudget`.
    """
    if options.replicas == 1 or not (options.gpu_layers or options.engine != STOA):
        return {}
    variables = {THREADS_VARIABLE: str(max(1, physical_cores() // options.replicas))}
    devices = gpu_devices()
    if len(devices) > 1:
        engine_options = dict(options.engine_options)
        count = next((int(engine_options[name]) for name in DEVICE_OPTIONS if name in engine_options), 1)
        own = range(number * count, (number + 1) * count)
        variables[DEVICE_VARIABLE] = ",".join(dict.fromkeys(devices[place % len(devices)] for place in own))
    return variables
