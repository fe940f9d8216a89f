"""Runs a model host: the only one of its run folder, with its socket, until a signal or a client ends it."""

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from inference.engine.host.model_host import ModelHost
from inference.engine.host.options import HostOptions
from inference.engine.host.supervision import Health
from inference.engine.ipc import HOST_SOCKET

LOADER = "inference.engine.host.loading:load_model"
MAX_SOCKET_PATH = 107  # what Linux allows


def run_host(
    run_dir: Path, *, policy: HostOptions | None = None, loader: str = LOADER, health: Health | None = None
) -> None:
    """Run until SIGTERM, SIGINT or a client's stop. Where a host runs already, say so and return.

    `loader` is "module:function" with the signature of `loading.load_model`. ValueError: the folder's path is too long.
    """
    run_dir = run_dir.absolute()
    if len(os.fsencode(run_dir)) > MAX_SOCKET_PATH - 24:
        raise ValueError(
            f"{run_dir} is too long a path for Unix sockets; choose one under {MAX_SOCKET_PATH - 24} bytes."
        )
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    run_dir.chmod(0o700)
    with _sole_host(run_dir) as alone:
        if alone:
            for stale in run_dir.glob("*.sock"):
                stale.unlink()
            asyncio.run(_host(run_dir, loader, health or Health(), policy or HostOptions()))
        else:
            print(f"A model host runs already in {run_dir}; this one is not needed.", flush=True)


@contextlib.contextmanager
def _sole_host(run_dir: Path) -> Iterator[bool]:
    with (run_dir / "host.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


async def _host(run_dir: Path, loader: str, health: Health, policy: HostOptions) -> None:
    host = ModelHost(run_dir, loader, health, policy)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, host.stopping.set)
    socket = run_dir / HOST_SOCKET
    listener = await asyncio.start_unix_server(host.serve, path=socket)
    socket.chmod(0o600)
    print(f"Model host ready in {run_dir}", flush=True)
    await host.stopping.wait()
    listener.close()
    socket.unlink(missing_ok=True)
    await host.end_all()
