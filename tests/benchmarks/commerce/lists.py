"""List endpoints of the shop beside plain Django views that return the same records from the same tables.

The shop's have authentication, permissions, rate limits, filters and pagination. Processor time is that of the whole
server process; no response comes from a cache. At last, many clients read the list of products at once.
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
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil

from tests.benchmarks._table import Comparison, arguments, publish
from tests.commerce.live_server import ServedShop, served_shop

CHECKOUT = Path(__file__).resolve().parents[3]
CONNECTIONS = 8
CLIENTS = 64
CLIENT_REQUESTS = 10  # of each of the clients
ADDRESSES = 15
ORDERS = 15
ADDRESS = {"street_address": "1 Rue de Rivoli", "city": "Paris", "zip": "75001", "country": "FR"}


@dataclass(frozen=True)
class Side:
    """One of the two servers: its port, its process and the requests to it."""

    port: int
    process: psutil.Process
    requests: dict[str, bytes]

    def processor_seconds(self) -> float:
        return sum(self.process.cpu_times()[:2])


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


def add_orders(shop: ServedShop, headers: dict[str, str]) -> None:
    """Place orders of the customer: one or two products of the demo each."""
    rows = httpx2.get(f"{shop.url}/api/products?limit=30&in_stock=1", timeout=30).json()["data"]
    simple = [row["id"] for row in rows if row["product_type"] == "simple"]
    for number in range(ORDERS):
        chosen = {simple[number % len(simple)], simple[(number + 1) % len(simple)]}
        body = {"products": [{"product_id": product_id, "order_quantity": 1} for product_id in sorted(chosen)]}
        answer = httpx2.post(f"{shop.url}/api/orders", json=body, headers=headers, timeout=30)
        assert answer.status_code == 201, answer.text


@contextlib.contextmanager
def bare_server(environment: dict[str, str]) -> Iterator[tuple[int, psutil.Process]]:
    """Run the server of the plain views; yield its port and its process."""
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
            yield port, psutil.Process(process.pid)
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


async def ask_all(side: Side, name: str, count: int) -> None:
    """Send `count` requests on each connection."""
    await asyncio.gather(*(ask(side, name, count) for _ in range(CONNECTIONS)))


def cost(side: Side, name: str, count: int) -> tuple[float, float]:
    """Return the milliseconds of a request over all connections: of the clock, and of the server's processor."""
    began, used = time.perf_counter(), side.processor_seconds()
    asyncio.run(ask_all(side, name, count))
    requests = CONNECTIONS * count / 1000
    return (time.perf_counter() - began) / requests, (side.processor_seconds() - used) / requests


def compare(measured: Side, baseline: Side, *, rounds: int, count: int) -> Iterator[Comparison]:
    """Measure in turns, so that a disturbance of the machine affects both."""
    for name in measured.requests:
        bodies = [json.loads(asyncio.run(ask(side, name, 1))) for side in (measured, baseline)]
        for body in bodies:
            if name == "analytics":
                body.pop("asOf")  # the time of the answer
        assert bodies[0] == bodies[1], f"{name} differ: {bodies}"
        costs = [[cost(side, name, count) for side in (measured, baseline)] for _ in range(rounds)]
        for part, unit in enumerate(("clock", "processor")):
            ours, theirs = (statistics.median(pair[side][part] for pair in costs) for side in (0, 1))
            yield Comparison(f"GET /{name}, {unit}", ours, theirs, "ms a request")


async def crowd(side: Side, name: str) -> tuple[Counter[str], list[float]]:
    """Return the statuses and the milliseconds of requests of many clients at once."""
    statuses, durations = Counter[str](), list[float]()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
        for _ in range(CLIENT_REQUESTS):
            began = time.perf_counter()
            writer.write(side.requests[name])
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            await reader.readexactly(int(length[1]) if length else 0)
            durations.append((time.perf_counter() - began) * 1000)
            statuses[head.split(b" ", 2)[1].decode()] += 1
        writer.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return statuses, durations


def print_crowd(side: Side, name: str) -> None:
    statuses, durations = asyncio.run(crowd(side, name))
    p50, p95 = statistics.median(durations), statistics.quantiles(durations, n=20)[-1]
    print(
        f"GET /{name}, {CLIENTS} clients: statuses {dict(statuses)}, p50 {p50:.0f} ms, p95 {p95:.0f} ms "
        f"({p95 / p50:.1f} times)",
        flush=True,
    )


def lists(customer: int, headers: dict[str, str], owner_headers: dict[str, str]) -> list[tuple[str, bytes, bytes]]:
    """Return each list with the shop's request and that of the plain view, which is told who asks."""
    return [
        ("addresses", request("/api/addresses", headers), request(f"/api/addresses?customer={customer}", {})),
        ("products", request("/api/products", {}), request("/api/products", {})),
        ("attributes", request("/api/attributes", {}), request("/api/attributes", {})),
        ("orders", request("/api/orders", headers), request(f"/api/orders?customer={customer}", {})),
        ("analytics", request("/api/analytics", owner_headers), request("/api/analytics", {})),
    ]


def main() -> None:
    given = arguments(__doc__ or "")
    rounds, count = (2, 10) if given.quick else (6, 40)
    with served_shop(provider_url="http://127.0.0.1:9") as shop:
        headers, owner_headers = shop.headers("CUSTOMER"), shop.headers("SUPER_ADMIN")
        customer = add_addresses(shop, headers)
        add_orders(shop, headers)
        with bare_server(shop.environment) as (plain_port, plain_process):
            rows = lists(customer, headers, owner_headers)
            measured = Side(
                int(shop.url.rpartition(":")[2]), psutil.Process(shop.pid), {name: ours for name, ours, _ in rows}
            )
            baseline = Side(plain_port, plain_process, {name: plain for name, _, plain in rows})
            comparisons = list(compare(measured, baseline, rounds=rounds, count=count))
            print_crowd(measured, "products")
            publish(comparisons, given.json)


if __name__ == "__main__":
    main()
