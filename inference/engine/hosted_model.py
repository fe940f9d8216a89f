"""One model's life under the host: started, watched, started again after a crash, drained, ended."""

import asyncio
import contextlib
import logging
import math
import os
import time
from pathlib import Path

import msgspec

from inference.engine import frames
from inference.engine.channel import BrokenFrame
from inference.engine.errors import EngineError, ModelLoadFailed, ModelNotLoaded
from inference.engine.launcher import Launcher, ModelProcess
from inference.engine.process import ModelSpec
from inference.engine.request import LoadReport, ModelState, ModelStatus

logger = logging.getLogger(__name__)

STOP_SECONDS = 3.0
RESTART_WAIT_SECONDS = 8.0
MAX_CRASHES = 3
CRASH_WINDOW_SECONDS = 60.0


class Health(msgspec.Struct, frozen=True):
    """A model process is pinged every `interval` seconds; one that is silent for `patience` seconds is killed."""

    interval: float = 5.0
    patience: float = 30.0


class HostedModel:
    """`ready` resolves with the report, or with why there is none; a crash makes a new one for the next start."""

    def __init__(self, spec: ModelSpec, launcher: Launcher, health: Health) -> None:
        self.spec = spec
        self.state = ModelState.LOADING
        self._launcher = launcher
        self._health = health
        self._asked_at = time.monotonic()
        self._process: ModelProcess | None = None
        self._report: LoadReport | None = None
        self._error: str | None = None
        self._ending = False
        self._crashes = 0
        self._crashed_at = -math.inf
        self.ready = self._new_ready()
        self._life = asyncio.create_task(self._live())

    @property
    def status(self) -> ModelStatus:
        loaded = self.state in (ModelState.LOADED, ModelState.UNLOADING)
        return ModelStatus(
            model_id=self.spec.model_id,
            state=self.state,
            pid=self._process.pid if self._process else None,
            error=self._error,
            report=self._report if loaded else None,
        )

    async def find(self) -> Path:
        """The socket to ask; waits for a restart after a crash, which is short. ModelNotLoaded otherwise."""
        if self.state is ModelState.LOADING and self._report is not None:
            await asyncio.wait({self.ready}, timeout=RESTART_WAIT_SECONDS)
        if self.state is ModelState.LOADED:
            return Path(self.spec.socket)
        model_id = self.spec.model_id
        if self.state is ModelState.FAILED:
            raise ModelNotLoaded(f"{model_id} failed: {self._error} Load it again.", state=self.state)
        usual_ms = self._report.load_time_ms if self._report else 2000
        raise ModelNotLoaded(
            f"{model_id} is {self.state}; ask again in a few seconds.",
            state=self.state,
            retry_after=max(1, math.ceil(usual_ms / 1000)),
        )

    async def end(self, *, force: bool) -> None:
        """Returns when the process is gone: after its running requests, or with `force` at once."""
        self._ending = True
        if self._process is None:
            self._life.cancel()  # it waits for its process to start
        elif self.state is ModelState.LOADING:
            self._process.kill("it was unloaded")
        else:
            self.state = ModelState.UNLOADING
            self._process.channel.send(frames.Stop() if force else frames.Drain())
        await asyncio.wait({self._life}, timeout=STOP_SECONDS if force else None)
        if not self._life.done() and self._process is not None:
            self._process.kill("it was unloaded")
        await asyncio.wait({self._life})
        self._fail(ModelLoadFailed(f"{self.spec.model_id} was unloaded."))

    async def _live(self) -> None:
        while await self._run():
            self.ready = self._new_ready()

    async def _run(self) -> bool:
        """One process from start to end; True when another is to follow."""
        self.state = ModelState.LOADING
        try:
            self._process = await self._launcher.start(self.spec)
        except (OSError, EOFError) as error:
            return self._fail(ModelLoadFailed(f"No process could be started for {self.spec.model_id}: {error}"))
        refusal = await self._serve(self._process)
        await asyncio.wait({self._process.ended}, timeout=STOP_SECONDS)
        self._process.kill("it hung at its end")
        last_words = await self._process.ended
        self._process = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.spec.socket)
        if self._ending:
            return False
        if refusal is not None:
            return self._fail(refusal)
        return self._crash(last_words)

    async def _serve(self, process: ModelProcess) -> EngineError | None:
        """Until the process ends or is killed. Returns why it would not load, if it said so."""
        try:
            answer = await process.channel.receive()
            if isinstance(answer, frames.Failed):
                return frames.error_from(answer)
            if isinstance(answer, frames.Started):
                self._become_loaded(answer.report)
                await self._watch(process)
        except TimeoutError:
            process.kill(f"it did not answer for {self._health.patience:g} s")
        except BrokenFrame as error:
            process.kill(str(error))
        return None

    async def _watch(self, process: ModelProcess) -> None:
        while not process.ended.done():
            process.channel.send(frames.Ping())
            async with asyncio.timeout(self._health.patience):
                if await process.channel.receive() is None:
                    return
            await asyncio.wait({process.ended}, timeout=self._health.interval)

    def _become_loaded(self, report: LoadReport) -> None:
        if self._ending:
            return
        elapsed_ms = round((time.monotonic() - self._asked_at) * 1000)
        self._report = msgspec.structs.replace(report, load_time_ms=elapsed_ms)
        self._error = None
        self.state = ModelState.LOADED
        self.ready.set_result(self._report)
        logger.info("engine.model_loaded model=%s ms=%d", self.spec.model_id, elapsed_ms)

    def _crash(self, last_words: str) -> bool:
        """A crash while it first loads is a failed load; later ones heal, until they come too fast."""
        logger.warning("engine.model_crashed model=%s reason=%r", self.spec.model_id, last_words)
        now = self._asked_at = time.monotonic()
        self._error = f"The model process ended ({last_words})."
        if self._report is None:
            return self._fail(ModelLoadFailed(f"{self.spec.model_id} could not be loaded. {self._error}"))
        self._crashes = self._crashes + 1 if now - self._crashed_at <= CRASH_WINDOW_SECONDS else 1
        self._crashed_at = now
        if self._crashes >= MAX_CRASHES:
            return self._fail(ModelLoadFailed(f"{self._error} That was crash {self._crashes} within a short time."))
        return True

    def _fail(self, error: EngineError) -> bool:
        logger.info("engine.model_ended model=%s reason=%r", self.spec.model_id, error.message)
        self.state = ModelState.FAILED
        self._error = error.message
        if not self.ready.done():
            self.ready.set_exception(error)
        return False

    def _new_ready(self) -> asyncio.Future[LoadReport]:
        ready = asyncio.get_running_loop().create_future()
        ready.add_done_callback(lambda done: done.exception())  # nobody may be waiting
        return ready
