"""One model's life under the host: let in, started, watched, started again after a crash, drained, ended."""

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
from inference.engine.host.load_plan import Host, Plan
from inference.engine.host.process_memory import resident_bytes
from inference.engine.host.supervision import watch
from inference.engine.ipc import frames
from inference.engine.model_status import LoadReport, ModelState, ModelStatus

logger = logging.getLogger(__name__)

STOP_SECONDS = 3.0
RESTART_WAIT_SECONDS = 8.0
MOST_PROGRESS = 0.95  # of what is measured by memory: it is loaded when it says so


class HostedModel:
    """`ready` resolves with the report, or with why there is none; a crash makes a new one for the next start."""

    def __init__(self, plan: Plan, revision: int, host: Host) -> None:
        self.plan = plan
        self.revision = revision
        self.state = ModelState.LOADING
        self.memory_bytes = plan.memory_bytes
        self.used_at = self._load_started_at = time.monotonic()
        self.is_resting = False
        self._host = host
        self._process: ModelProcess | None = None
        self._resident_at_start = 0
        self._report: LoadReport | None = None
        self._error: str | None = None
        self._ending = False
        self._busy = self._was_useful = False
        self._held_until = -math.inf
        self._crashes = CrashLoop()
        self._retired: asyncio.Future[bool] | None = None
        self.ready = self._new_ready()
        self._life = asyncio.create_task(self._live())

    @property
    def model_id(self) -> str:
        return self.plan.spec.model_id

    @property
    def is_loaded(self) -> bool:
        return self.state is ModelState.LOADED

    @property
    def is_leaving(self) -> bool:
        return self.state is ModelState.UNLOADING

    @property
    def is_alive(self) -> bool:
        """It is loaded, or will be."""
        return self.state in (ModelState.LOADING, ModelState.LOADED)

    @property
    def is_starting(self) -> bool:
        """It has never been loaded yet."""
        return self.state is ModelState.LOADING and self._report is None

    @property
    def is_idle(self) -> bool:
        return self.is_loaded and not self._busy and not self.is_held and self._retired is None

    @property
    def is_held(self) -> bool:
        return time.monotonic() < self._held_until

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
            memory_bytes=self.memory_bytes if loaded or self.is_alive else 0,
            resident_bytes=resident_bytes(pid) if pid else None,
            busy=self._busy,
            used_at=self.used_at if loaded else None,
            suspended=self.is_resting,
            retry_after=self._cooling() or None,
        )

    async def find(self) -> Path:
        """The socket to ask; waits for a restart after a crash, which is short. ModelNotLoaded otherwise."""
        if self.state is ModelState.LOADING and self._report is not None:
            await asyncio.wait({self.ready}, timeout=RESTART_WAIT_SECONDS)
        if self.is_loaded:
            return Path(self.plan.spec.socket)
        raise self.not_loaded()

    def not_loaded(self) -> ModelNotLoaded:
        """Why there is nothing to ask."""
        if self.state is ModelState.FAILED:
            details = {"retry_after": math.ceil(self._cooling())} if self._cooling() else {}
            return ModelNotLoaded(f"{self.model_id} failed: {self._error} Load it again.", state=self.state, **details)
        if self.state is ModelState.UNLOADED:
            return ModelNotLoaded(f"{self.model_id} is not loaded; load it first.", state=self.state)
        usual_ms = self._report.load_time_ms if self._report else 2000
        return ModelNotLoaded(
            f"{self.model_id} is {self.state}; ask again in a few seconds.",
            state=self.state,
            retry_after=max(1, math.ceil(usual_ms / 1000)),
        )

    def hold(self) -> None:
        """Keep it a while for the request that it was loaded for, until that has come."""
        self._held_until = time.monotonic() + self._host.policy.held

    async def retire(self) -> bool:
        """End it unless somebody has come to it meanwhile; True when it is gone. It is resting then."""
        if not self.is_idle or self._process is None:
            return False
        self._retired = asyncio.get_running_loop().create_future()
        self._process.channel.send(frames.Retire())
        try:
            answered: set[asyncio.Future[Any]] = {self._retired, self._life}
            await asyncio.wait(answered, return_when=asyncio.FIRST_COMPLETED)
            if self._retired.done() and not self._retired.result():
                return False
            await self.ended()
        finally:
            self._retired = None
        return True

    def close_to_new(self) -> None:
        """It takes no new requests and ends after the last one. It is resting then."""
        if self._process is not None and self.is_loaded:
            self._rest()
            self._process.channel.send(frames.Drain())

    async def end(self, *, force: bool) -> None:
        """Returns when the process is gone: after its running requests, or with `force` at once."""
        self._ending = True
        if self._process is None:
            self._life.cancel()  # it waits for room or for its process to start, or has ended
        elif self.state is ModelState.LOADING:
            self._process.kill("it was unloaded")
        else:
            self.state = ModelState.UNLOADING
            self._process.channel.send(frames.Stop() if force else frames.Drain())
        await asyncio.wait({self._life}, timeout=STOP_SECONDS if force else None)
        if not self._life.done() and self._process is not None:
            self._process.kill("it was unloaded")
        await self.ended()
        self._fail(ModelLoadFailed(f"{self.model_id} was unloaded."))

    async def ended(self) -> None:
        """Returns when its process, if there was one, is gone and its room is free."""
        await asyncio.wait({self._life})

    async def _live(self) -> None:
        room = self._host.room
        try:
            await room.enter(self, may_evict=not self.plan.background)
            while await self._run():
                self.ready = self._new_ready()
        except EngineError as error:  # no room
            if self.plan.background:
                self.is_resting = True
            self._fail(error)
        finally:
            room.leave(self)
            if self.is_resting:
                self.state = ModelState.UNLOADED
                self._error = None

    async def _run(self) -> bool:
        """One process from start to end; True when another is to follow."""
        self.state = ModelState.LOADING
        try:
            self._process = await self._host.launcher.start(self.plan.spec)
        except (OSError, EOFError) as error:
            return self._fail(ModelLoadFailed(f"No process could be started for {self.model_id}: {error}"))
        self._resident_at_start = resident_bytes(self._process.pid)
        self._busy = self._was_useful = False
        refusal = await watch(self._process, self._host.health, loaded=self._become_loaded, hear=self._hear)
        await asyncio.wait({self._process.ended}, timeout=STOP_SECONDS)
        self._process.kill("it hung at its end")
        last_words = await self._process.ended
        self._process = None
        self._busy = False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.plan.spec.socket)
        if self._ending:
            return False
        if refusal is not None:
            return self._fail(refusal)
        return self._crash(last_words)

    def _hear(self, frame: frames.Frame) -> None:
        match frame:
            case frames.Activity(busy, used_at, finished):
                self._busy, self.used_at = busy, used_at
                self._was_useful = finished > 0
                self._held_until = -math.inf
            case frames.Retired(is_ending):
                if is_ending:
                    self._rest()
                if self._retired is not None and not self._retired.done():
                    self._retired.set_result(is_ending)
        self._host.room.look_again()

    def _rest(self) -> None:
        self._ending = self.is_resting = True
        self.state = ModelState.UNLOADING

    async def _become_loaded(self, report: LoadReport) -> None:
        self.memory_bytes = self._host.costs[self.plan.content] = report.memory_usage_bytes
        await self._host.room.settle(self)
        if self._ending:
            return
        now = self.used_at = time.monotonic()
        elapsed_ms = round((now - self._load_started_at) * 1000)
        self._report = msgspec.structs.replace(report, load_time_ms=elapsed_ms)
        self._error = None
        self.state = ModelState.LOADED
        if self.plan.for_request:
            self.hold()
        self._host.cool_downs.note_success(self.model_id)
        self.ready.set_result(self._report)
        self._host.room.look_again()
        logger.info("engine.model_loaded model=%s ms=%d", self.model_id, elapsed_ms)

    def _crash(self, last_words: str) -> bool:
        """A crash while it first loads is a failed load; later ones heal, until they come too fast."""
        logger.warning("engine.model_crashed model=%s reason=%r", self.model_id, last_words)
        self._load_started_at = time.monotonic()
        self._error = f"The model process ended ({last_words})."
        if self._report is None:
            return self._fail(ModelLoadFailed(f"{self.model_id} could not be loaded. {self._error}"))
        if self._crashes.note(self._load_started_at, was_useful=self._was_useful):
            return self._fail(ModelLoadFailed(f"{self._error} It crashed again and again within a short time."))
        return True

    def _fail(self, error: EngineError) -> bool:
        logger.info("engine.model_ended model=%s reason=%r", self.model_id, error.message)
        self.state = ModelState.FAILED
        self._error = error.message
        if isinstance(error, ModelLoadFailed) and not self._ending:
            self._host.cool_downs.note_failure(self.model_id, self.plan.content, time.monotonic())
        if not self.ready.done():
            self.ready.set_exception(error)
        return False

    def _cooling(self) -> float:
        if self.state is not ModelState.FAILED:
            return 0.0
        return self._host.cool_downs.seconds_left(self.model_id, self.plan.content, time.monotonic())

    def _progress(self) -> float:
        """By the memory that it has taken so far."""
        if self._process is None or self._process.pid is None:
            return 0.0
        taken = resident_bytes(self._process.pid) - self._resident_at_start
        return round(min(MOST_PROGRESS, max(0, taken) / max(1, self.plan.memory_bytes)), 2)

    def _new_ready(self) -> asyncio.Future[LoadReport]:
        ready = asyncio.get_running_loop().create_future()
        ready.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be waiting
        return ready
