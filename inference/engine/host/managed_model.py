"""A model managed by the host: admitted, started, supervised, restarted after a crash, drained and ended."""

import asyncio
import contextlib
import logging
import math
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from inference.engine.errors import EngineError, ModelLoadFailed, ModelNotLoaded
from inference.engine.host.backoff import CrashLoop
from inference.engine.host.launcher import ModelProcess
from inference.engine.host.load_plan import HostResources, LoadPlan
from inference.engine.host.supervision import supervise
from inference.engine.ipc import frames
from inference.engine.model_status import LoadReport, ModelState, ModelStatus
from inference.engine.process_memory import tree_bytes

logger = logging.getLogger(__name__)

STOP_SECONDS = 3.0
RESTART_WAIT_SECONDS = 8.0
MAX_ESTIMATED_PROGRESS = 0.95  # memory growth is only an estimate; the model process reports the end


class ManagedModel:
    """A model of the host. ready: resolves with the report or error of a start; each restart has a new one."""

    def __init__(self, plan: LoadPlan, revision: int, host: HostResources) -> None:
        self.plan = plan
        self.revision = revision
        self.state = ModelState.LOADING
        self.memory_bytes = plan.memory_bytes
        self.used_at = self._load_started_at = time.monotonic()
        self.is_suspended = False
        self._host = host
        self._process: ModelProcess | None = None
        self._resident_at_start = 0
        self._report: LoadReport | None = None
        self._error: str | None = None
        self._ending = False
        self._busy = self._was_useful = False
        self._cache_bytes = 0
        self._reserved_until = -math.inf
        self._crashes = CrashLoop()
        self._retire_reply: asyncio.Future[bool] | None = None
        self.ready = self._new_ready()
        self._lifecycle = asyncio.create_task(self._run_lifecycle())

    @property
    def model_id(self) -> str:
        return self.plan.spec.model_id

    @property
    def is_loaded(self) -> bool:
        return self.state is ModelState.LOADED

    @property
    def is_unloading(self) -> bool:
        return self.state is ModelState.UNLOADING

    @property
    def is_active(self) -> bool:
        """Return whether the model is loaded or loading."""
        return self.state in (ModelState.LOADING, ModelState.LOADED)

    @property
    def is_first_loading(self) -> bool:
        """Return whether the model is loading and was never loaded before."""
        return self.state is ModelState.LOADING and self._report is None

    @property
    def is_idle(self) -> bool:
        return self.is_loaded and not self._busy and not self.is_reserved and self._retire_reply is None

    @property
    def is_reserved(self) -> bool:
        return time.monotonic() < self._reserved_until

    @property
    def status(self) -> ModelStatus:
        loaded = self.state in (ModelState.LOADED, ModelState.UNLOADING)
        pid = self._process.pid if self._process else None
        return ModelStatus(
            model_id=self.model_id,
            state=self.state,
            pid=pid,
            error=self._error,
            report=self._report if loaded else None,
            options=self.plan.spec.options,
            revision=self.revision,
            progress=self._progress() if self.state is ModelState.LOADING else None,
            memory_bytes=self.memory_bytes if loaded or self.is_active else 0,
            resident_bytes=tree_bytes(pid) if pid else None,
            cache_bytes=self._cache_bytes if loaded else None,
            busy=self._busy,
            used_at=self.used_at if loaded else None,
            suspended=self.is_suspended,
            retry_after=self._cooldown_seconds() or None,
        )

    async def wait_for_socket(self) -> Path:
        """Return the path of the model's socket, after a short wait if it restarts. Raise ModelNotLoaded."""
        if self.state is ModelState.LOADING and self._report is not None:
            await asyncio.wait({self.ready}, timeout=RESTART_WAIT_SECONDS)
        if self.is_loaded:
            return Path(self.plan.spec.socket)
        raise self.not_loaded()

    def not_loaded(self) -> ModelNotLoaded:
        """Return the error for a request to this model in its current state."""
        if self.state is ModelState.FAILED:
            seconds = math.ceil(self._cooldown_seconds())
            details = {"retry_after": seconds} if seconds else {}
            return ModelNotLoaded(f"{self.model_id} failed: {self._error} Load it again.", state=self.state, **details)
        if self.state is ModelState.UNLOADED:
            return ModelNotLoaded(f"{self.model_id} is not loaded; load it first.", state=self.state)
        usual_ms = self._report.load_time_ms if self._report else 2000
        return ModelNotLoaded(
            f"{self.model_id} is {self.state}; try again in a few seconds.",
            state=self.state,
            retry_after=max(1, math.ceil(usual_ms / 1000)),
        )

    def reserve(self) -> None:
        """Keep the model loaded for the request that loaded it, until that arrives or the reservation ends."""
        self._reserved_until = time.monotonic() + self._host.options.reservation

    async def unload_if_idle(self) -> bool:
        """Suspend the model unless a request has arrived meanwhile. Return whether its process has ended."""
        if not self.is_idle or self._process is None:
            return False
        self._retire_reply = asyncio.get_running_loop().create_future()
        self._process.channel.send(frames.Retire())
        try:
            replied: set[asyncio.Future[Any]] = {self._retire_reply, self._lifecycle}
            await asyncio.wait(replied, return_when=asyncio.FIRST_COMPLETED)
            if self._retire_reply.done() and not self._retire_reply.result():
                return False
            await self.wait_ended()
        finally:
            self._retire_reply = None
        return True

    def drain(self) -> None:
        """Reject new requests, and suspend the model after the last one."""
        if self._process is not None and self.is_loaded:
            self._suspend()
            self._process.channel.send(frames.Drain())

    async def unload(self, *, force: bool) -> None:
        """End the process after its running requests, or at once with `force`. Return when it has ended."""
        self._ending = True
        if self._process is None:
            self._lifecycle.cancel()  # it waits for memory or for its process to start, or has ended
        elif self.state is ModelState.LOADING:
            self._process.kill("it was unloaded")
        else:
            self.state = ModelState.UNLOADING
            self._process.channel.send(frames.Stop() if force else frames.Drain())
        await asyncio.wait({self._lifecycle}, timeout=STOP_SECONDS if force else None)
        if not self._lifecycle.done() and self._process is not None:
            self._process.kill("it was unloaded")
        await self.wait_ended()
        self._fail(ModelLoadFailed(f"{self.model_id} was unloaded."))

    async def wait_ended(self) -> None:
        """Wait until the process has ended and its memory is free."""
        await asyncio.wait({self._lifecycle})

    async def _run_lifecycle(self) -> None:
        budget = self._host.memory_budget
        try:
            await budget.admit(self, may_evict=not self.plan.background)
            while await self._run_process():
                self.ready = self._new_ready()
        except EngineError as error:  # no memory
            if self.plan.background:
                self.is_suspended = True
            self._fail(error)
        finally:
            budget.release(self)
            if self.is_suspended:
                self.state = ModelState.UNLOADED
                self._error = None

    async def _run_process(self) -> bool:
        """Run one process from start to end. Return whether to restart it."""
        self.state = ModelState.LOADING
        try:
            self._process = await self._host.launcher.start(self.plan.spec)
        except (OSError, EOFError) as error:
            return self._fail(ModelLoadFailed(f"No process could be started for {self.model_id}: {error}"))
        self._resident_at_start = tree_bytes(self._process.pid)
        self._busy = self._was_useful = False
        self._cache_bytes = 0
        load_error = await supervise(
            self._process, self._host.health_check, on_loaded=self._become_loaded, on_frame=self._handle_frame
        )
        await asyncio.wait({self._process.ended}, timeout=STOP_SECONDS)
        self._process.kill("it did not end in time")
        reason = await self._process.ended
        self._process = None
        self._busy = False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.plan.spec.socket)
        if self._ending:
            return False
        if load_error is not None:
            return self._fail(load_error)
        return self._crash(reason)

    def _handle_frame(self, frame: frames.Frame) -> None:
        match frame:
            case frames.Activity(busy, used_at, finished):
                self._busy, self.used_at = busy, used_at
                self._was_useful = finished > 0
                self._reserved_until = -math.inf
            case frames.Pong(cache_bytes):
                self._cache_bytes = cache_bytes
            case frames.RetireReply(is_ending):
                if is_ending:
                    self._suspend()
                if self._retire_reply is not None and not self._retire_reply.done():
                    self._retire_reply.set_result(is_ending)
        self._host.memory_budget.notify_changed()

    def _suspend(self) -> None:
        self._ending = self.is_suspended = True
        self.state = ModelState.UNLOADING

    async def _become_loaded(self, report: LoadReport) -> None:
        on_cpu = report.memory_usage_bytes - report.gpu_memory_bytes  # the budget is not the GPU's
        self.memory_bytes = self._host.measured_bytes[self.plan.content] = on_cpu
        await self._host.memory_budget.update(self)
        if self._ending:
            return
        now = self.used_at = time.monotonic()
        elapsed_ms = round((now - self._load_started_at) * 1000)
        self._report = msgspec.structs.replace(report, load_time_ms=elapsed_ms)
        self._error = None
        self.state = ModelState.LOADED
        if self.plan.for_request:
            self.reserve()
        self._host.cooldowns.reset(self.model_id)
        self.ready.set_result(self._report)
        self._host.memory_budget.notify_changed()
        logger.info("engine.model_loaded model=%s ms=%d", self.model_id, elapsed_ms)

    def _crash(self, reason: str) -> bool:
        """Record a crash. Return whether to restart: not during the first load, and not in a crash loop."""
        logger.warning("engine.model_crashed model=%s reason=%r", self.model_id, reason)
        self._load_started_at = time.monotonic()
        self._error = f"The model process ended ({reason})."
        if self._report is None:
            return self._fail(ModelLoadFailed(f"{self.model_id} could not be loaded. {self._error}"))
        if self._crashes.record(self._load_started_at, was_useful=self._was_useful):
            return self._fail(ModelLoadFailed(f"{self._error} It crashed repeatedly within a short time."))
        return True

    def _fail(self, error: EngineError) -> bool:
        logger.info("engine.model_ended model=%s reason=%r", self.model_id, error.message)
        self.state = ModelState.FAILED
        self._error = error.message
        if isinstance(error, ModelLoadFailed) and not self._ending:
            self._host.cooldowns.record_failure(self.model_id, self.plan.content, time.monotonic())
        if not self.ready.done():
            self.ready.set_exception(error)
        return False

    def _cooldown_seconds(self) -> float:
        if self.state is not ModelState.FAILED:
            return 0.0
        return self._host.cooldowns.seconds_left(self.model_id, self.plan.content, time.monotonic())

    def _progress(self) -> float:
        """Return the progress of a load from 0 to 1, estimated from the growth of resident memory."""
        if self._process is None or self._process.pid is None:
            return 0.0
        growth = tree_bytes(self._process.pid) - self._resident_at_start
        return round(min(MAX_ESTIMATED_PROGRESS, max(0, growth) / max(1, self.plan.memory_bytes)), 2)

    def _new_ready(self) -> asyncio.Future[LoadReport]:
        ready = asyncio.get_running_loop().create_future()
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved, or asyncio logs it
        return ready
