"""The supervisor of this machine's model host, and the functions that start and stop a host."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from django.conf import settings

from inference.engine import HostOptions, HostUnavailable, ModelStatus
from inference.local.clients import host

CHECK_INTERVAL_SECONDS = 1.0
# A host that another process started is left to that process to restart; after so long without one we start our own.
EXTERNAL_RESTART_SECONDS = 15.0
STOP_TIMEOUT_SECONDS = 10.0

logger = structlog.get_logger(__name__)


def host_command(run_dir: Path) -> list[str]:
    """Return the command line of a model host under this installation's settings."""
    options: HostOptions = settings.MODEL_POLICY
    values = {
        "--run-dir": run_dir,
        "--compiled-dir": settings.COMPILED_DIR,
        "--engines-dir": settings.ENGINES_DIR,
        "--memory-budget": options.memory_budget,
        "--max-loaded": options.max_loaded,
        "--idle-unload": options.idle_unload,
    }
    switches = {"--evict": options.evict, "--autoload": options.autoload}
    arguments = [part for name, value in values.items() if value is not None for part in (name, str(value))]
    arguments += [name for name, is_on in switches.items() if is_on]
    return [sys.executable, "-m", "inference.engine.host", *arguments]


def start_host(run_dir: Path, *, quiet: bool = False) -> subprocess.Popen[bytes]:
    """Start a model host that ends with the calling thread. If a host is already running, the new one exits at once.

    quiet: discard its log.
    """
    return subprocess.Popen(  # noqa: S603 our own module
        [*host_command(run_dir), "--die-with-parent", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
        start_new_session=True,  # Ctrl-C must not reach it: the server still finishes running requests
    )


def stop_host(process: subprocess.Popen[bytes]) -> None:
    """Stop a host that `start_host` started, and its models."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class HostSupervisor:
    """A thread that checks the model host every second, starts a missing one, and calls `reconcile`.

    `reconcile` receives the host's models by id, and loads and unloads what differs from the desired state.
    """

    def __init__(self, reconcile: Callable[[dict[str, ModelStatus]], Awaitable[None]]) -> None:
        self._reconcile = reconcile
        self._process: subprocess.Popen[bytes] | None = None
        self._external_until = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="host-supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and the host if this supervisor started it."""
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT_SECONDS)

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    await self._check()
                except Exception:  # if this thread ended, the host and all models would end with it
                    logger.exception("host_check_failed")
                await asyncio.to_thread(self._stopping.wait, CHECK_INTERVAL_SECONDS)
        finally:
            if self._process:
                stop_host(self._process)

    async def _check(self) -> None:
        is_external = not self._is_running()
        try:
            statuses = {status.model_id: status for status in await host().models()}
        except HostUnavailable:
            self._start_if_missing()
            return
        if is_external:
            self._external_until = time.monotonic() + EXTERNAL_RESTART_SECONDS
        await self._reconcile(statuses)

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start_if_missing(self) -> None:
        if settings.START_HOST and not self._is_running() and time.monotonic() > self._external_until:
            self._process = start_host(settings.RUN_DIR)
            logger.info("model_host_started", pid=self._process.pid)
