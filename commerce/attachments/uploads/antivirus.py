"""Client of a ClamAV daemon, which scans every upload where `STOA_CLAMD` is set."""

import socket
import struct
from typing import IO
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 30.0
CHUNK_BYTES = 64 * 1024
MAX_REPLY_BYTES = 4096
DEFAULT_PORT = 3310


class InfectedFile(Exception):
    """A file in which the daemon found malware. The message is the daemon's name for it."""


class ScannerUnavailable(Exception):
    """A daemon that is not reachable, or that gave no verdict."""


def scan(file: IO[bytes], address: str) -> None:
    """Raise InfectedFile or ScannerUnavailable unless the daemon finds the file clean.

    Speaks INSTREAM (clamd(8)): chunks prefixed with their length, then a length of 0. The reply is `stream: OK` or
    `stream: NAME FOUND`.
    """
    file.seek(0)
    try:
        with _connect(address) as daemon:
            daemon.sendall(b"zINSTREAM\0")
            while chunk := file.read(CHUNK_BYTES):
                daemon.sendall(struct.pack(">I", len(chunk)) + chunk)
            daemon.sendall(struct.pack(">I", 0))
            reply = _read_reply(daemon)
    except OSError as error:
        raise ScannerUnavailable(f"{type(error).__name__} at {address}") from error
    if reply.endswith(" FOUND"):
        raise InfectedFile(reply.removeprefix("stream: ").removesuffix(" FOUND"))
    if reply != "stream: OK":
        raise ScannerUnavailable(f"{address} answered {reply[:100]!r}")


def _connect(address: str) -> socket.socket:
    """Connect to `tcp://host:port` or `unix:///path`."""
    parts = urlsplit(address)
    if parts.scheme == "unix":
        daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        daemon.settimeout(TIMEOUT_SECONDS)
        try:
            daemon.connect(parts.path)
        except OSError:
            daemon.close()
            raise
        return daemon
    return socket.create_connection((parts.hostname or "", parts.port or DEFAULT_PORT), timeout=TIMEOUT_SECONDS)


def _read_reply(daemon: socket.socket) -> str:
    reply = b""
    while not reply.endswith(b"\0") and len(reply) < MAX_REPLY_BYTES and (data := daemon.recv(1024)):
        reply += data
    return reply.rstrip(b"\0\n").decode("utf-8", "replace")
