"""The runner of a model host: one per run folder, on a socket in it, until a signal or a client stops it."""

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from inference.engine.host.model_host import ModelHost
from inference.engine.host.options import HostOptions
from inference.engine.host.supervision import HealthCheck
from inference.engine.ipc import HOST_SOCKET

LOADER = "inference.engine.host.loading:load_model"
MAX_SOCKET_PATH_BYTES = 107  # of Linux
MAX_RUN_DIR_BYTES = MAX_SOCKET_PATH_BYTES - 24  # leaves space for the names of sockets


def run_host(
    run_dir: Path, *, policy: HostOptions | None = None, loader: str = LOADER, health_check: HealthCheck | None = None
) -> None:
    """Run until SIGTERM, SIGINT, SIGHUP or a client's stop. If a host runs in this folder already, print so and return.

    loader: "module:function" with the signature of `loading.load_model`.
    Raise ValueError if the folder's path is too long.
    """
    run_dir = run_dir.absolute()
    if len(os.fsencode(run_dir)) > MAX_RUN_DIR_BYTES:
        raise ValueError(f"{run_dir} is too long a path for Unix sockets; choose one up to {MAX_RUN_DIR_BYTES} bytes.")
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    run_dir.chmod(0o700)
    with _run_dir_lock(run_dir) as is_locked:
        if is_locked:
            for stale in run_dir.glob("*.sock"):
                stale.unlink()
            asyncio.run(_host(run_dir, loader, health_check or HealthCheck(), policy or HostOptions()))
        else:
            print(f"A model host runs already in {run_dir}; this one is not needed.", flush=True)


@contextlib.contextmanager
def _run_dir_lock(run_dir: Path) -> Iterator[bool]:
    """Yield whether this process holds the lock of the folder."""
    with (run_dir / "host.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


async def _host(run_dir: Path, loader: str, health_check: HealthCheck, options: HostOptions) -> None:
    host = ModelHost(run_dir, loader, health_check, options)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, host.stopping.set)
    socket = run_dir / HOST_SOCKET
    listener = await asyncio.start_unix_server(host.serve, path=socket)
    socket.chmod(0o600)
    print(f"Model host ready in {run_dir}", flush=True)
    await host.stopping.wait()
    listener.close()
    socket.unlink(missing_ok=True)
    await host.shut_down()
