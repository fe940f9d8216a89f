"""The same bare ASGI application under uvicorn and under daphne: the reason why uvicorn serves Stoa.

It compares the memory for a client that does not read, the share of a large body that is read before the application
runs, the events of a stream that arrive after SIGTERM, and small events per second on one connection.
"""

import contextlib
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.benchmarks._table import Comparison, arguments, publish

APPLICATION = "tests.benchmarks.shared._streaming_app:application"
CHECKOUT = Path(__file__).resolve().parents[3]
MIB = 1024 * 1024
SLOW_EVENTS = 10


def command(server: str, port: int) -> list[str]:
    """Return the command that starts a server."""
    if server == "uvicorn":
        options = [
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--log-level",
            "error",
            "--timeout-graceful-shutdown",
            "30",
        ]
        return [sys.executable, "-m", "uvicorn", APPLICATION, *options]
    return [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "-v", "0", APPLICATION]


@contextlib.contextmanager
def running(server: str) -> Iterator[tuple[psutil.Process, int]]:
    """Run a server for the block; yield its process and port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(command(server, port), cwd=CHECKOUT, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield psutil.Process(process.pid), port
        finally:
            process.kill()


def wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise TimeoutError("The server did not start within 10 s.")


def send_request(port: int, path: str, *, receive_buffer: int | None = None) -> socket.socket:
    """Send a request for `path` and return its connection, of which nothing is read yet."""
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Return all bytes until the server closes or resets the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(MIB):
            parts.append(part)
    return b"".join(parts)


def buffered_bytes(server: str, mebibytes: int) -> float:
    """Return the MiB that the server grows by while the client of a long stream reads nothing for 3 s."""
    with running(server) as (process, port):
        before = process.memory_info().rss
        with send_request(port, f"/flood/{mebibytes}", receive_buffer=4096):
            time.sleep(3)
            return max(0.0, (process.memory_info().rss - before) / MIB)


def sent_before_response(server: str, mebibytes: int) -> int:
    """Return the MiB of a body that are sent before the response of an application that reads none of it."""
    with running(server) as (_, port), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        head = f"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {mebibytes * MIB}\r\n\r\n"
        connection.sendall(head.encode())
        for sent in range(mebibytes):
            if select.select([connection], [], [], 0.02)[0]:
                return sent
            connection.sendall(b"y" * MIB)
        return mebibytes


def events_after_sigterm(server: str) -> int:
    """Return how many of ten events in two seconds arrive if SIGTERM comes after the first."""
    with running(server) as (process, port), send_request(port, f"/slow/{SLOW_EVENTS}") as connection:
        got = connection.recv(4096)
        process.send_signal(signal.SIGTERM)
        return (got + read_all(connection)).count(b"data: ")


def events_per_second(server: str, count: int) -> float:
    """Return the small events per second on one connection whose client reads as fast as it can."""
    with running(server) as (_, port):
        started = time.perf_counter()
        with send_request(port, f"/events/{count}") as connection:
            assert read_all(connection).count(b"data: ") == count
        return count / (time.perf_counter() - started)


def main() -> None:
    options = arguments(__doc__ or "")
    size, count = (64, 20_000) if options.quick else (256, 100_000)
    comparisons = []
    for name, unit, measure in (
        (f"memory for a client that reads nothing of {size} MiB", "MiB", lambda server: buffered_bytes(server, size)),
        (f"of {size} MiB, sent before an early response", "MiB", lambda server: sent_before_response(server, size)),
        (f"of {SLOW_EVENTS} events, received after SIGTERM", "events", events_after_sigterm),
        ("events on one connection", "events/s", lambda server: events_per_second(server, count)),
    ):
        comparisons.append(Comparison(name, measure("uvicorn"), measure("daphne"), unit))
    print("measured: uvicorn, baseline: daphne")
    publish(comparisons, options.json)


if __name__ == "__main__":
    main()
