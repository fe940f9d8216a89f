"""List endpoints of the shop beside plain Django views that return the same bytes from the same tables.

The shop's have authentication, permissions, rate limits, filters and pagination.
"""

import asyncio
import contextlib
import json
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.benchmarks._table import Comparison, arguments, publish
from tests.commerce.live_server import ServedShop, served_shop

CHECKOUT = Path(__file__).resolve().parents[3]
CONNECTIONS = 8
ADDRESSES = 15
ADDRESS = {"street_address": "1 Rue de Rivoli", "city": "Paris", "zip": "75001", "country": "FR"}


@dataclass(frozen=True)
class Side:
    """One of the two servers: its port and the requests to it."""

    port: int
    requests: dict[str, bytes]


def request(path: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def add_addresses(shop: ServedShop, headers: dict[str, str]) -> int:
    """Create addresses of the customer and return the customer's id."""
    customer = int(httpx2.get(f"{shop.url}/api/me", headers=headers, timeout=30).json()["id"])
    for number in range(ADDRESSES):
        body = {"title": f"Home {number}", "type": "billing", "customer_id": customer, "address": ADDRESS}
        answer = httpx2.post(f"{shop.url}/api/addresses", json=body, headers=headers, timeout=30)
        assert answer.status_code == 201, answer.text
    return customer


@contextlib.contextmanager
def bare_server(environment: dict[str, str]) -> Iterator[int]:
    """Run the server of the plain views; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    application = "tests.benchmarks.commerce._plain_lists:application"
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        application,
        "--port",
        str(port),
        "--log-level",
        "error",
        "--no-access-log",
    ]
    with subprocess.Popen(command, cwd=CHECKOUT, env=environment) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()


async def read(reader: asyncio.StreamReader) -> bytes:
    """Return the body of the next response."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert length, head
    return await reader.readexactly(int(length[1]))


async def ask(side: Side, name: str, count: int) -> bytes:
    """Send `count` requests in sequence on one connection; return the last body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
    body = b""
    for _ in range(count):
        writer.write(side.requests[name])
        body = await read(reader)
    writer.close()
    return body


async def rate(side: Side, name: str, count: int) -> float:
    """Return the requests per second over all connections."""
    began = time.perf_counter()
    await asyncio.gather(*(ask(side, name, count) for _ in range(CONNECTIONS)))
    return CONNECTIONS * count / (time.perf_counter() - began)


def compare(measured: Side, baseline: Side, *, rounds: int, count: int) -> Iterator[Comparison]:
    """Measure in turns, so that a disturbance of the machine affects both."""
    for name in measured.requests:
        bodies = [json.loads(asyncio.run(ask(side, name, 1))) for side in (measured, baseline)]
        assert bodies[0] == bodies[1], f"{name} differ: {bodies}"
        rates = [[asyncio.run(rate(side, name, count)) for side in (measured, baseline)] for _ in range(rounds)]
        our_rate, their_rate = map(statistics.median, zip(*rates, strict=True))
        yield Comparison(f"GET /{name}", our_rate, their_rate, "requests/s")


def main() -> None:
    given = arguments(__doc__ or "")
    rounds, count = (2, 10) if given.quick else (6, 40)
    with served_shop(provider_url="http://127.0.0.1:9") as shop:
        headers = shop.headers("CUSTOMER")
        customer = add_addresses(shop, headers)
        with bare_server(shop.environment) as plain_port:
            requests = {"addresses": request("/api/addresses", headers), "products": request("/api/products", headers)}
            bare_path = f"/api/addresses?customer={customer}"
            plain_requests = {"addresses": request(bare_path, {}), "products": request("/api/products", {})}
            measured = Side(int(shop.url.rpartition(":")[2]), requests)
            publish(list(compare(measured, Side(plain_port, plain_requests), rounds=rounds, count=count)), given.json)


if __name__ == "__main__":
    main()
