"""uvicorn with graceful shutdown, for one process on one address: `serve("commerce.config.asgi:application", ...)`.

At SIGTERM or Ctrl-C the server drains: readiness fails and new requests get 503, while running requests may finish.
Then it exits with 0. A second signal, or a thread that does not end, ends it at once.
"""

import errno
import gc
import importlib
import ipaddress
import os
import socket
import sqlite3
import sys
import threading
import time
from pathlib import Path
from types import FrameType

import structlog
import uvicorn
from django.conf import settings
from uvicorn.supervisors import ChangeReload

from shared.observability import metrics
from shared.observability.health import is_draining, start_draining
from shared.observability.trace_export import start_tracing
from shared.serving.processes.periodic_tasks import start_periodic_tasks
from shared.serving.server.http_protocol import LimitedHttpProtocol, raise_connection_limit
from shared.serving.server.memory import return_large_blocks
from shared.serving.server.websocket_protocol import LimitedWebSocketProtocol
from shared.serving.storage_checks import require_sqlite_file, require_writable_folders, sqlite_file
from shared.sqlite.persistent_connections import keep_connections_open

KEEP_ALIVE_SECONDS = 75  # longer than a proxy keeps a connection, or it would send into a closed one
# After which a thread that computes lets others go on. Each row of SQLite releases Python's lock, and with the usual
# 5 ms a request of 30 ms took a second beside one that computed.
SWITCH_INTERVAL_SECONDS = 0.0001
FORCED_EXIT_SECONDS = 5  # after the drain, for tasks that ignore their cancellation

logger = structlog.get_logger(__name__)


class CannotServe(Exception):
    """The server cannot listen on its address. The message says what to do."""


def serve(
    application: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    uds: Path | None = None,
    drain_s: float = 30.0,
    reload: bool = False,
) -> None:
    """Serve an application ("module:attribute", wrapped by `shared.serving.asgi.wrapper.wrap`) until a signal.

    Listen on the Unix socket `uds` if given, else on `host` and `port`; port 0 takes a free one, which the log shows.
    With `reload`, restart when a Python file of the application's package or of `shared` changes. Raise CannotServe.
    """
    require_storage()
    listener = _unix_listener(uds) if uds else _tcp_listener(host, port)
    LimitedHttpProtocol.max_connections = raise_connection_limit()
    config = uvicorn.Config(
        application,
        http=LimitedHttpProtocol,
        ws=LimitedWebSocketProtocol,
        loop="uvloop",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
        reload=reload,
        # Not the working directory: its `.venv` has too many files to watch.
        reload_dirs=[_package_folder(application), _package_folder("shared")] if reload else None,
    )
    server = DrainingServer(config, drain_s=drain_s)
    try:
        if reload:
            ChangeReload(config, target=server.run, sockets=[listener]).run()
        else:
            server.run(sockets=[listener])
    finally:
        if uds:
            uds.unlink(missing_ok=True)
    logger.info("stopped", pid=os.getpid())


def require_storage() -> None:
    """Raise CannotServe if the folder of data cannot be written, or a file is no usable SQLite database.

    A PostgreSQL server may be started later: readiness waits for it.
    """
    try:
        require_writable_folders()
        if (database := sqlite_file()) and database.exists():
            require_sqlite_file(database)
    except OSError as error:
        folder = Path(error.filename).parent if error.filename else settings.VAR_DIR
        raise CannotServe(f"The folder {folder} cannot be written: {error.strerror}.") from error
    except sqlite3.Error as error:
        raise CannotServe(
            f"The database {sqlite_file()} cannot be used: {error}. Check its owner and its disk, or restore a backup."
        ) from error


def _package_folder(module: str) -> str:
    """Return the folder of a module's top-level package."""
    package = importlib.import_module(module.partition(".")[0])
    return str(Path(str(package.__file__)).parent)


class DrainingServer(uvicorn.Server):
    """uvicorn server that finishes running requests, with open listeners, before it exits."""

    def __init__(self, config: uvicorn.Config, *, drain_s: float) -> None:
        super().__init__(config)
        self._drain_s = drain_s
        self._drain_deadline = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        metrics.use_shared_folder(settings.METRICS_DIR / settings.PROJECT)
        start_tracing()
        keep_connections_open(settings.DATABASES)
        return_large_blocks()
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        await super().startup(sockets)
        # Imported objects stay: a full collection over them would pause all requests for a tenth of a second.
        gc.collect()
        gc.freeze()
        start_periodic_tasks(settings.SERVER_PERIODIC_TASKS)
        logger.info("serving", urls=[_url_of(listener) for listener in sockets or []], pid=os.getpid())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if is_draining():
            os._exit(128 + sig)
        start_draining()
        self._drain_deadline = time.monotonic() + self._drain_s
        forced_exit = threading.Timer(self._drain_s + FORCED_EXIT_SECONDS, os._exit, args=(1,))
        forced_exit.daemon = True
        forced_exit.start()
        logger.info("draining", running=len(self.server_state.tasks))

    async def on_tick(self, counter: int) -> bool:
        if is_draining() and (not self.server_state.tasks or time.monotonic() > self._drain_deadline):
            self.should_exit = True
        return await super().on_tick(counter)


def _tcp_listener(host: str, port: int) -> socket.socket:
    _refuse_public_address(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise CannotServe(f"Port {port} of {host} is taken: choose another with --port.") from error
        raise CannotServe(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error
    return listener


def _unix_listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        listener.close()
        raise CannotServe(f"Cannot listen on the Unix socket {path}: {error}.") from error
    return listener


def _refuse_public_address(host: str) -> None:
    """Raise CannotServe for an address other than loopback, unless production settings with their checks are used."""
    if _is_loopback(host) or str(settings.SETTINGS_MODULE).endswith(".production"):
        return
    project = settings.SETTINGS_MODULE.split(".")[0]
    raise CannotServe(
        f"{host} can be reached from other machines, and {settings.SETTINGS_MODULE} is for this one alone. "
        f"Set DJANGO_SETTINGS_MODULE={project}.config.settings.production and what it asks for, "
        "or listen on 127.0.0.1."
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _url_of(listener: socket.socket) -> str:
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
