"""The clients of the model host and of other servers for this process, and the host itself when it is ours to start."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path

import structlog
from django.conf import settings

from inference.engine import EngineClient, HostClient, HostUnavailable, ModelStatus, Policy
from inference.remote.client import RemoteClient

LOOK_EVERY_S = 1.0
# A host that somebody else started is somebody else's to start again; after so long without it we start one.
ANOTHERS_RESTART_S = 15.0
HOST_ENDS_WITHIN_S = 10.0

logger = structlog.get_logger(__name__)


def host() -> HostClient:
    """Commands to the model host of this machine."""
    return HostClient(settings.RUN_DIR)


def engine() -> EngineClient:
    """The loaded models of this machine; one client a process, for all its event loops."""
    return _engine(settings.RUN_DIR)


@cache
def _engine(run_dir: Path) -> EngineClient:
    return EngineClient(run_dir)


@cache
def remote() -> RemoteClient:
    """The models that other servers run; one client a process, for all its event loops."""
    return RemoteClient(settings.REMOTE_MODELS)


def host_command(run_dir: Path) -> list[str]:
    """The command line of a model host under this installation's settings."""
    policy: Policy = settings.MODEL_POLICY
    numbers = {
        "--memory-budget": policy.memory_budget,
        "--max-loaded": policy.max_loaded,
        "--idle-unload": policy.idle_unload,
    }
    choices = {"--evict": policy.evict, "--autoload": policy.autoload}
    folders = ["--run-dir", str(run_dir), "--compiled-dir", str(settings.COMPILED_DIR)]
    told = [part for flag, value in numbers.items() if value is not None for part in (flag, str(value))]
    chosen = [flag for flag, is_chosen in choices.items() if is_chosen]
    return [sys.executable, "-m", "inference.engine.host", *folders, *told, *chosen]


def start_host(run_dir: Path, *, quiet: bool = False) -> subprocess.Popen[bytes]:
    """Start a model host that dies with the thread that calls this. Where one runs already, the new one just ends.

    quiet: its log is dropped.
    """
    return subprocess.Popen(  # noqa: S603 our own module
        [*host_command(run_dir), "--die-with-parent"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
        start_new_session=True,  # Ctrl-C is for who started it to deal with: a server still finishes what runs
    )


def end_host(process: subprocess.Popen[bytes]) -> None:
    """End a host that `start_host` started, and its models with it."""
    process.terminate()
    try:
        process.wait(HOST_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Keeper:
    """Sees to it, in a thread of its own, that a model host runs and that `reconcile` is called with what it knows.

    `reconcile` gets the models that the host lists, by id, and loads what is missing.
    """

    def __init__(self, reconcile: Callable[[dict[str, ModelStatus]], Awaitable[None]]) -> None:
        self._reconcile = reconcile
        self._process: subprocess.Popen[bytes] | None = None
        self._anothers_until = 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._keep()), name="model-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """End the host if it is ours."""
        self._ending.set()
        self._thread.join(HOST_ENDS_WITHIN_S)

    async def _keep(self) -> None:
        try:
            while not self._ending.is_set():
                try:
                    await self._look()
                except Exception:  # of this look; if the Keeper ended, so would every model
                    logger.exception("models_not_looked_after")
                await asyncio.to_thread(self._ending.wait, LOOK_EVERY_S)
        finally:
            if self._process:
                end_host(self._process)

    async def _look(self) -> None:
        is_anothers = self._is_gone()
        try:
            statuses = {status.model_id: status for status in await host().models()}
        except HostUnavailable:
            self._start_when_gone()
            return
        if is_anothers:
            self._anothers_until = time.monotonic() + ANOTHERS_RESTART_S
        await self._reconcile(statuses)

    def _is_gone(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _start_when_gone(self) -> None:
        if settings.START_HOST and self._is_gone() and time.monotonic() > self._anothers_until:
            self._process = start_host(settings.RUN_DIR)
            logger.info("model_host_started", pid=self._process.pid)
