"""Small things about files, locks and ports."""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steps.terminal import Failed, say


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time; the kernel lets go of it when this one ends, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def hash_of(files: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def write_private(path: Path, value: Any) -> None:
    """Whole or not at all, and for its owner alone."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(value, file, indent=2)
    draft.replace(path)


def choose_port(name: str, wanted: int | None, usual: int, promised: int | None = None) -> int:
    """The wanted port, or the usual one, or, where that is taken or `promised` to another, a free one."""
    if wanted is not None:
        if wanted == promised or not is_free(wanted):
            raise Failed(f"Port {wanted} is taken. Choose another with --{name}-port, or none: a free one is found.")
        return wanted
    if usual != promised and is_free(usual):
        return usual
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    say(f"  Port {usual} is taken: {name} gets {port}.")
    return port


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
