"""Why uvicorn serves Stoa: the same bare application under uvicorn and under daphne, side by side.

What is compared: memory for a reader that does not read, what of a large body is taken before the application is
asked, what of a running stream arrives after SIGTERM, and small events a second on one connection.
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

from tests.benchmarks._table import Results, arguments

APPLICATION = "tests.benchmarks._streaming_app:application"
CHECKOUT = Path(__file__).resolve().parent.parent.parent
MIB = 1024 * 1024
SLOW_EVENTS = 10


def command(server: str, port: int) -> list[str]:
    """How a server is started."""
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
    """The server's process and port; it is ended with the block."""
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


def ask(port: int, path: str, *, receive_buffer: int | None = None) -> socket.socket:
    """A connection on which `path` was asked for, and nothing read yet."""
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return connection


def read_all(connection: socket.socket) -> bytes:
    """All until the server closes, or breaks off."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(MIB):
            parts.append(part)
    return b"".join(parts)


def growth_for_a_stalled_reader(server: str, mebibytes: int) -> float:
    """MiB that the server grows by while a client that asked for a long stream reads nothing of it for 3 s."""
    with running(server) as (process, port):
        before = process.memory_info().rss
        with ask(port, f"/flood/{mebibytes}", receive_buffer=4096):
            time.sleep(3)
            return max(0.0, (process.memory_info().rss - before) / MIB)


def sent_before_an_answer(server: str, mebibytes: int) -> int:
    """MiB of a body that a client has sent when the answer comes of an application that needs none of it."""
    with running(server) as (_, port), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        head = f"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {mebibytes * MIB}\r\n\r\n"
        connection.sendall(head.encode())
        for sent in range(mebibytes):
            if select.select([connection], [], [], 0.02)[0]:
                return sent
            connection.sendall(b"y" * MIB)
        return mebibytes


def events_after_sigterm(server: str) -> int:
    """Of ten events in two seconds, how many arrive when SIGTERM comes after the first."""
    with running(server) as (process, port), ask(port, f"/slow/{SLOW_EVENTS}") as connection:
        got = connection.recv(4096)
        process.send_signal(signal.SIGTERM)
        return (got + read_all(connection)).count(b"data: ")


def events_a_second(server: str, count: int) -> float:
    """Small events a second on one connection that reads as fast as it can."""
    with running(server) as (_, port):
        started = time.perf_counter()
        with ask(port, f"/events/{count}") as connection:
            assert read_all(connection).count(b"data: ") == count
        return count / (time.perf_counter() - started)


def main() -> None:
    options = arguments(__doc__ or "")
    size, count = (64, 20_000) if options.quick else (256, 100_000)
    results = Results(["", "uvicorn", "daphne"])
    for name, measure in (
        (
            f"MiB for a reader that reads nothing of {size} MiB",
            lambda server: growth_for_a_stalled_reader(server, size),
        ),
        (f"MiB of {size} sent before an answer that needs none", lambda server: sent_before_an_answer(server, size)),
        (f"events of {SLOW_EVENTS} that arrive after SIGTERM", events_after_sigterm),
        ("events a second on one connection", lambda server: events_a_second(server, count)),
    ):
        uvicorn, daphne = measure("uvicorn"), measure("daphne")
        results.add(name, uvicorn, daphne)
        results.add_ratio(f"{name}, uvicorn over daphne", uvicorn / daphne if daphne else float(uvicorn))
    results.show(options.json)


if __name__ == "__main__":
    main()
