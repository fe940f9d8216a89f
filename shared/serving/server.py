"""uvicorn with a drain of our own, for one process on one address: `serve("commerce.config.asgi:application", ...)`.

At SIGTERM (or Ctrl-C) the server is not ready at once and refuses what is new, while its listeners stay open and what
runs may end; then it exits 0. A second signal, or a thread that never ends, ends it at once.
"""

import errno
import gc
import importlib
import ipaddress
import os
import socket
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
from shared.observability.tracing_out import start_tracing
from shared.serving.http import HttpProtocol, most_connections
from shared.serving.memory import give_large_blocks_back
from shared.serving.rounds import start_rounds
from shared.serving.websockets import WebSocketProtocol
from shared.sqlite.holding import hold_open

KEEP_ALIVE_S = 75  # longer than the proxies before us keep a connection, or they would send into a closed one
LEFT_OVER_S = 5  # after the drain, for what does not heed its cancellation

logger = structlog.get_logger(__name__)


class CannotServe(Exception):
    """The address cannot be served; the message says what to do."""


def serve(
    application: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    uds: Path | None = None,
    drain_s: float = 30.0,
    reload: bool = False,
) -> None:
    """Serve `application` ("module:attribute", wrapped by `shared.serving.asgi.wrap`) until a signal ends it.

    Listens on the Unix socket `uds` when given, else on `host` and `port` (0: a free one, which the log tells).
    `reload` starts anew whenever a Python file of the application's package or of `shared` changes. Raises CannotServe.
    """
    listener = _unix_listener(uds) if uds else _tcp_listener(host, port)
    HttpProtocol.most_connections = most_connections()
    config = uvicorn.Config(
        application,
        http=HttpProtocol,
        ws=WebSocketProtocol,
        loop="uvloop",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
        reload=reload,
        # Not the working directory: it has `.venv`, with too many files to look at again and again.
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


def _package_folder(module: str) -> str:
    """Where the top-level package of a module lies."""
    package = importlib.import_module(module.partition(".")[0])
    return str(Path(str(package.__file__)).parent)


class DrainingServer(uvicorn.Server):
    """A server that finishes what runs, with open listeners, before it ends."""

    def __init__(self, config: uvicorn.Config, *, drain_s: float) -> None:
        super().__init__(config)
        self._drain_s = drain_s
        self._drained_at = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        metrics.share(settings.METRICS_DIR / settings.PROJECT)
        start_tracing()
        hold_open(settings.DATABASES)
        give_large_blocks_back()
        await super().startup(sockets)
        # What was imported stays: to look through it again and again would stop everybody for a tenth of a second.
        gc.collect()
        gc.freeze()
        start_rounds(settings.SERVER_ROUNDS)
        logger.info("serving", urls=[_url_of(listener) for listener in sockets or []], pid=os.getpid())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if is_draining():
            os._exit(128 + sig)
        start_draining()
        self._drained_at = time.monotonic() + self._drain_s
        last_resort = threading.Timer(self._drain_s + LEFT_OVER_S, os._exit, args=(1,))
        last_resort.daemon = True
        last_resort.start()
        logger.info("draining", running=len(self.server_state.tasks))

    async def on_tick(self, counter: int) -> bool:
        if is_draining() and (not self.server_state.tasks or time.monotonic() > self._drained_at):
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
    """Only production settings ask for keys, hosts and https, so only they may be reached from outside."""
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
