"""Cost of the ASGI wrapper: the same small application behind `shared.serving` and behind plain uvicorn."""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks._table import Comparison, arguments, publish

CHECKOUT = Path(__file__).resolve().parents[3]
CONNECTIONS = 16
PLAIN = """
import os, uvicorn
from tests.shared.serving.served import project
uvicorn.run(project, port=0, loop="uvloop", http="httptools", lifespan="off", access_log=False)
"""
REQUESTS = {
    "GET": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST of 1 KiB": b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1024\r\n\r\n" + b"x" * 1024,
}


def start(command: list[str], log: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server; return it with its port, the first that it logs."""
    environment = os.environ | {"SERVED": json.dumps({})}
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, *command], cwd=CHECKOUT, env=environment, stderr=output)
    while not (port := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())):
        if process.poll() is not None:
            raise RuntimeError(f"The server did not start: {log.read_text()}")
        time.sleep(0.05)
    return process, int(port[1])


async def ask(port: int, request: bytes, count: int) -> list[float]:
    """Return the seconds of each of `count` requests, in sequence on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times = []
    for _ in range(count):
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if b"chunked" in head:
            await reader.readuntil(b"\r\n0\r\n\r\n")
        times.append(time.perf_counter() - began)
    writer.close()
    return times


async def measure(port: int, request: bytes, count: int) -> tuple[float, float]:
    """Return the requests per second and the median milliseconds over all connections."""
    began = time.perf_counter()
    times = await asyncio.gather(*(ask(port, request, count) for _ in range(CONNECTIONS)))
    took = time.perf_counter() - began
    return CONNECTIONS * count / took, statistics.median(one for many in times for one in many) * 1000


def compare(our_port: int, their_port: int, *, rounds: int, count: int) -> Iterator[Comparison]:
    """Measure in turns, so that a disturbance of the machine affects both."""
    for name, request in REQUESTS.items():
        measured: dict[int, list[tuple[float, float]]] = {our_port: [], their_port: []}
        for _ in range(rounds):
            for port in measured:
                measured[port].append(asyncio.run(measure(port, request, count)))
        (our_rate, our_ms), (their_rate, their_ms) = (
            map(statistics.median, zip(*rows, strict=True)) for rows in measured.values()
        )
        yield Comparison(f"{name}, throughput", our_rate, their_rate, "requests/s")
        yield Comparison(f"{name}, median time", our_ms, their_ms, "ms")


def main() -> None:
    given = arguments(__doc__ or "")
    rounds, count = (2, 50) if given.quick else (6, 300)
    with tempfile.TemporaryDirectory() as folder:
        ours, our_port = start(["-m", "tests.shared.serving.served"], Path(folder) / "ours")
        theirs, their_port = start(["-c", PLAIN], Path(folder) / "theirs")
        try:
            publish(list(compare(our_port, their_port, rounds=rounds, count=count)), given.json)
        finally:
            for process in (ours, theirs):
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
