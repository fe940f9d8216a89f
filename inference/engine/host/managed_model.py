"""A model managed by the host: admitted, run by one or more replicas, drained and ended."""

import asyncio
import contextlib
import logging
import math
import time

import msgspec

from inference.engine.errors import EngineError, ModelLoadFailed, ModelNotLoaded
from inference.engine.host.load_plan import HostResources, LoadPlan
from inference.engine.host.replica import STOP_SECONDS, Replica
from inference.engine.ipc import frames
from inference.engine.model_status import LoadReport, ModelState, ModelStatus

logger = logging.getLogger(__name__)

RESTART_WAIT_SECONDS = 8.0
MAX_ESTIMATED_PROGRESS = 0.95  # memory growth is only an estimate; the model process reports the end
TOTALS = ("memory_usage_bytes", "weight_bytes", "cache_limit_bytes", "gpu_memory_bytes")  # of a report, in bytes


class ManagedModel:
    """A model of the host. ready: resolves with the report or error of a start; each restart has a new one.

    It is loaded once all of its replicas are, and from then on while any is. A replica that cannot be started again
    rests for a cooldown; when all of them rest, the model has failed.
    """

    def __init__(self, plan: LoadPlan, revision: int, host: HostResources) -> None:
        self.plan = plan
        self.revision = revision
        self.state = ModelState.LOADING
        self.memory_bytes = plan.memory_bytes
        self.used_at = self._load_started_at = time.monotonic()
        self.is_suspended = False
        self._host = host
        self._replicas = [Replica(plan.spec, number, host, self) for number in range(plan.spec.options.replicas)]
        self._report: LoadReport | None = None
        self._error: str | None = None
        self._ending = asyncio.Event()
        self._first_loaded = asyncio.Event()
        self._retirement: asyncio.Future[None] | None = None
        self._reserved_until = -math.inf
        self.ready = self._new_ready()
        self._lifecycle = asyncio.create_task(self._run_lifecycle())

    @property
    def model_id(self) -> str:
        return self.plan.spec.model_id

    @property
    def replica_count(self) -> int:
        return len(self._replicas)

    @property
    def load_bytes(self) -> int:
        return self.plan.load_bytes

    @property
    def pending_bytes(self) -> int:
        loading = [replica for replica in self._replicas if replica.state is ModelState.LOADING]
        each = self.load_bytes // self.replica_count
        return sum(max(0, each - replica.taken_bytes) for replica in loading)

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    @property
    def was_loaded(self) -> bool:
        return self._report is not None

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
        return self.state is ModelState.LOADING and not self.was_loaded

    @property
    def is_busy(self) -> bool:
        return any(replica.is_busy for replica in self._replicas)

    @property
    def is_idle(self) -> bool:
        return self.is_loaded and not self.is_busy and not self.is_reserved and self._retirement is None

    @property
    def is_reserved(self) -> bool:
        return time.monotonic() < self._reserved_until

    @property
    def status(self) -> ModelStatus:
        loaded = self.state in (ModelState.LOADED, ModelState.UNLOADING)
        running = [replica for replica in self._replicas if replica.has_process]
        replicas = self._replicas if self.replica_count > 1 and (loaded or self.is_active) else []
        return ModelStatus(
            model_id=self.model_id,
            state=self.state,
            pid=running[0].pid if running else None,
            error=self._error or (self._replica_error() if self.state is ModelState.LOADING else None),
            report=self._report if loaded else None,
            options=self.plan.spec.options,
            revision=self.revision,
            progress=self._progress() if self.state is ModelState.LOADING else None,
            memory_bytes=self.memory_bytes if loaded or self.is_active else 0,
            resident_bytes=sum(replica.resident_bytes or 0 for replica in running) if running else None,
            cache_bytes=sum(replica.cache_bytes for replica in self._replicas) if loaded else None,
            busy=self.is_busy,
            used_at=self.used_at if loaded else None,
            suspended=self.is_suspended,
            retry_after=self._cooldown_seconds() or None,
            replicas=tuple(replica.status for replica in replicas),
        )

    async def wait_for_socket(self, number: int | None) -> frames.ModelSocket:
        """Return the socket of a replica, or of any that is ready. Raise ModelNotLoaded.

        For any, it waits a short time first if the whole model restarts.
        """
        if number is None and self.state is ModelState.LOADING and self.was_loaded:
            await asyncio.wait({self.ready}, timeout=RESTART_WAIT_SECONDS)
        if not self.is_loaded:
            raise self.not_loaded()
        if number is None:
            replica = next((one for one in self._replicas if one.is_loaded), self._replicas[0])
        else:
            replica = self._replicas[min(number, self.replica_count - 1)]
        if not replica.is_loaded:
            raise ModelNotLoaded(
                f"Replica {replica.number} of {self.model_id} is {replica.state}; try again in a few seconds.",
                state=ModelState.LOADING,
                retry_after=1,
            )
        return frames.ModelSocket(replica.socket, self.replica_count)

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
        """Suspend the model unless a request has arrived meanwhile. Return whether its processes have ended."""
        if not self.is_idle:
            return False
        self._retirement = asyncio.get_running_loop().create_future()
        try:
            replies = await asyncio.gather(*(one.retire() for one in self._replicas if one.is_loaded))
            if is_ending := all(replies):
                self._suspend()
        finally:
            self._retirement.set_result(None)
            self._retirement = None
            self._note_restart()
        if is_ending:
            await self.wait_ended()
        return is_ending

    def drain(self) -> None:
        """Reject new requests, and suspend the model after the last one."""
        if self.is_loaded:
            self._suspend()
            for replica in self._replicas:
                replica.end(force=False)

    async def unload(self, *, force: bool) -> None:
        """End the processes after their running requests, or at once with `force`. Return when they have ended."""
        self._begin_ending()
        if not any(replica.has_process for replica in self._replicas):
            self._lifecycle.cancel()  # it waits for memory or for a process to start, or has ended
        for replica in self._replicas:
            replica.end(force=force)
        if self.is_loaded:
            self.state = ModelState.UNLOADING
        await asyncio.wait({self._lifecycle}, timeout=STOP_SECONDS if force else None)
        for replica in self._replicas:
            replica.kill()
        await self.wait_ended()
        self._fail(ModelLoadFailed(f"{self.model_id} was unloaded."))

    async def wait_ended(self) -> None:
        """Wait until the processes have ended and their memory is free."""
        await asyncio.wait({self._lifecycle})

    async def replica_loaded(self, replica: Replica, report: LoadReport) -> None:
        """Note a loaded replica. Raise an EngineError if its memory, as measured now, is too much for all replicas."""
        replica_bytes = report.memory_usage_bytes - report.gpu_memory_bytes  # the budget is not the GPU's
        self._host.measured_bytes[self.plan.replica_content] = replica_bytes
        self.memory_bytes = replica_bytes * self.replica_count
        await self._host.memory_budget.update(self)
        if self.is_ending:
            return
        replica.state, replica.error = ModelState.LOADED, None
        self._host.cooldowns.reset((self.model_id, replica.number))
        self._first_loaded.set()
        if self.was_loaded or all(one.is_loaded for one in self._replicas):
            self._become_loaded(replica, report)
        self._host.memory_budget.notify_changed()

    def replica_changed(self, replica: Replica, activity: frames.Activity | None = None) -> None:
        """Note that a replica became busy or idle, or that its process has ended."""
        if activity is not None:
            self.used_at = max(self.used_at, activity.used_at)
            self._reserved_until = -math.inf
        self._note_restart()
        self._host.memory_budget.notify_changed()

    async def retirement_decided(self) -> None:
        """Wait until it is decided whether the model ends, if its replicas were asked to."""
        if self._retirement is not None:
            await asyncio.wait({self._retirement})

    async def _run_lifecycle(self) -> None:
        budget = self._host.memory_budget
        try:
            await self._admit()
            await self._run_replicas()
        except EngineError as error:
            self._fail(error)
        finally:
            budget.release(self)
            if self.is_suspended:
                self.state = ModelState.UNLOADED
                self._error = None
                if not self.ready.done():
                    self.ready.set_exception(self.not_loaded())

    async def _admit(self) -> None:
        try:
            await self._host.memory_budget.admit(self, may_evict=not self.plan.background)
        except EngineError:  # no memory
            self.is_suspended = self.is_suspended or self.plan.background
            raise

    async def _run_replicas(self) -> None:
        """Run all replicas until the model ends. Raise the error of a load, or of the last replica that can run."""
        runs = [asyncio.create_task(self._run_replica(replica)) for replica in self._replicas]
        try:
            await asyncio.gather(*runs)
        finally:
            for run in runs:
                run.cancel()
            await asyncio.wait(runs)

    async def _run_replica(self, replica: Replica) -> None:
        """Run a replica until the model ends. The first one is loaded before the others: it may fail for all."""
        if replica.number:
            await self._first_loaded.wait()
        while not self.is_ending:
            try:
                await replica.run()
            except EngineError as error:
                if not self.was_loaded or all(one.state is ModelState.FAILED for one in self._replicas):
                    raise
                await self._rest(replica, error)

    async def _rest(self, replica: Replica, error: EngineError) -> None:
        """Wait for the end of a replica's cooldown, or of the model."""
        cooldowns, key, now = self._host.cooldowns, (self.model_id, replica.number), time.monotonic()
        cooldowns.record_failure(key, self.plan.content, now)
        seconds = cooldowns.seconds_left(key, self.plan.content, now)
        fields = (self.model_id, replica.number, seconds, error.message)
        logger.warning("engine.replica_rests model=%s replica=%d seconds=%g reason=%r", *fields)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    def _note_restart(self) -> None:
        """Be loading again if no replica is loaded any more, unless they end or it is not decided whether they do."""
        is_deciding = self.is_ending or self._retirement is not None
        if self.is_loaded and not is_deciding and not any(one.is_loaded for one in self._replicas):
            self.state = ModelState.LOADING
            self.ready = self._new_ready()

    def _begin_ending(self) -> None:
        self._ending.set()
        self._first_loaded.set()

    def _suspend(self) -> None:
        self._begin_ending()
        self.is_suspended = True
        self.state = ModelState.UNLOADING
        for replica in self._replicas:
            if not replica.is_loaded:
                replica.kill()

    def _become_loaded(self, replica: Replica, report: LoadReport) -> None:
        """Become loaded by the last replica of a first load, or by one that was restarted."""
        now = self.used_at = time.monotonic()
        started_at = replica.load_started_at if self.was_loaded else self._load_started_at
        elapsed_ms = round((now - started_at) * 1000)
        totals = {name: getattr(report, name) * self.replica_count for name in TOTALS}
        self._report = msgspec.structs.replace(report, load_time_ms=elapsed_ms, replicas=self.replica_count, **totals)
        self._error = None
        self.state = ModelState.LOADED
        if self.plan.for_request:
            self.reserve()
        self._host.cooldowns.reset(self.model_id)
        if not self.ready.done():
            self.ready.set_result(self._report)
        logger.info("engine.model_loaded model=%s replica=%d ms=%d", self.model_id, replica.number, elapsed_ms)

    def _fail(self, error: EngineError) -> None:
        logger.info("engine.model_ended model=%s reason=%r", self.model_id, error.message)
        self.state = ModelState.FAILED
        self._error = error.message
        if isinstance(error, ModelLoadFailed) and not self.is_ending:
            self._host.cooldowns.record_failure(self.model_id, self.plan.content, time.monotonic())
        if not self.ready.done():
            self.ready.set_exception(error)

    def _replica_error(self) -> str | None:
        return next((replica.error for replica in self._replicas if replica.error), None)

    def _cooldown_seconds(self) -> float:
        if self.state is not ModelState.FAILED:
            return 0.0
        return self._host.cooldowns.seconds_left(self.model_id, self.plan.content, time.monotonic())

    def _progress(self) -> float:
        """Return the progress of a load from 0 to 1, estimated from the growth of resident memory."""
        growth = sum(replica.loaded_bytes for replica in self._replicas)
        return round(min(MAX_ESTIMATED_PROGRESS, growth / max(1, self.plan.memory_bytes)), 2)

    def _new_ready(self) -> asyncio.Future[LoadReport]:
        ready = asyncio.get_running_loop().create_future()
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved, or asyncio logs it
        return ready
