"""A ClamAV daemon, asked about each file before anything else opens it, where `STOA_CLAMD` names one."""

import socket
import struct
from typing import IO
from urllib.parse import urlsplit

TIMEOUT_S = 30.0
CHUNK = 64 * 1024
LONGEST_ANSWER = 4096
DEFAULT_PORT = 3310


class Infected(Exception):
    """The daemon knows something bad in the file; the message is its name for it."""


class ScannerUnavailable(Exception):
    """The daemon could not be asked, or did not say whether the file is well."""


def scan(file: IO[bytes], address: str) -> None:
    """Raises Infected or ScannerUnavailable. Speaks INSTREAM (clamd(8)): chunks after their length, then a length of 0;
    the answer is `stream: OK`, or `stream: NAME FOUND`."""
    file.seek(0)
    try:
        with _connected(address) as daemon:
            daemon.sendall(b"zINSTREAM\0")
            while chunk := file.read(CHUNK):
                daemon.sendall(struct.pack(">I", len(chunk)) + chunk)
            daemon.sendall(struct.pack(">I", 0))
            answer = _answer_of(daemon)
    except OSError as error:
        raise ScannerUnavailable(f"{type(error).__name__} at {address}") from error
    if answer.endswith(" FOUND"):
        raise Infected(answer.removeprefix("stream: ").removesuffix(" FOUND"))
    if answer != "stream: OK":
        raise ScannerUnavailable(f"{address} answered {answer[:100]!r}")


def _connected(address: str) -> socket.socket:
    """`tcp://host:port` or `unix:///path`."""
    parts = urlsplit(address)
    if parts.scheme == "unix":
        daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        daemon.settimeout(TIMEOUT_S)
        try:
            daemon.connect(parts.path)
        except OSError:
            daemon.close()
            raise
        return daemon
    return socket.create_connection((parts.hostname or "", parts.port or DEFAULT_PORT), timeout=TIMEOUT_S)


def _answer_of(daemon: socket.socket) -> str:
    answer = b""
    while not answer.endswith(b"\0") and len(answer) < LONGEST_ANSWER and (more := daemon.recv(1024)):
        answer += more
    return answer.rstrip(b"\0\n").decode("utf-8", "replace")
