"""Clients that read nothing of a response, and the connections to PostgreSQL that a server uses beside them."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx2
import psycopg

COUNT = 12  # more than the ten connections of a process's pool: if each reader held one, some would get no response
HEAD_TIMEOUT_SECONDS = 30.0
COMPUTE_TIMEOUT_SECONDS = 15.0
QUIET_SECONDS = 0.5
MIN_BLOCKING_BYTES = 5 * 1024 * 1024  # more than the kernel buffers for a connection that nobody reads
IN_USE = """
SELECT state || ': ' || query FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
"""


@contextmanager
def slow_readers(request: httpx2.Request) -> Iterator[None]:
    """Send the request on many connections; read nothing of the responses, which are 200, while the block runs."""
    address = urlsplit(str(request.url))
    lines = [f"{request.method} {request.url.raw_path.decode()} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    message = "\r\n".join([*lines, "", ""]).encode() + request.read()
    with ExitStack() as opened:
        for _ in range(COUNT):
            reader = opened.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect((address.hostname, address.port))
            reader.sendall(message)
            reader.settimeout(HEAD_TIMEOUT_SECONDS)
            assert (start := reader.recv(1500, socket.MSG_PEEK)).startswith(b"HTTP/1.1 200 OK"), start
        yield


def connections_in_use(database_url: str) -> list[str]:
    """Return what connections to this database do while the responses wait for their readers.

    What the kernel buffers for them is computed before: many megabytes.
    """
    deadline, quiet_since = time.monotonic() + COMPUTE_TIMEOUT_SECONDS, time.monotonic()
    with psycopg.connect(database_url, autocommit=True) as connection:
        while True:
            in_use = [row[0] for row in connection.execute(IN_USE)]
            if in_use:
                quiet_since = time.monotonic()
            if time.monotonic() > min(deadline, quiet_since + QUIET_SECONDS):
                return in_use
            time.sleep(0.05)
