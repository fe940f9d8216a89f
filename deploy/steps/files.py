"""Files, locks and ports."""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steps.terminal import StepError, say


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on the folder; the kernel releases it when this process ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def hash_files(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Return the file's JSON object; an empty one if the file is missing or incomplete."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def write_private(path: Path, value: Any) -> None:
    """Write JSON atomically, readable only by its owner."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(value, file, indent=2)
    draft.replace(path)


def choose_port(
    name: str, requested: int | None, default: int, reserved: int | None = None, last: int | None = None
) -> int:
    """Return the requested port, else the default one, that of the last time or any free one; never the reserved one.

    Raise StepError if the requested port is taken.
    """
    if requested is not None:
        if requested == reserved or not is_free(requested):
            raise StepError(
                f"Port {requested} is taken. Choose another with --{name}-port, or leave it out to use a free one."
            )
        return requested
    if default != reserved and is_free(default):
        return default
    if last is not None and last != reserved and is_free(last):
        port = last
    else:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
    say(f"  Port {default} is taken: {name} gets {port}.")
    return port


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
