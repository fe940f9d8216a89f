"""Costs of one client's attack for the others, on a demo: rows N9, N11 and N12.

* 2,000 half-sent heads from one address, and bodies at a byte a second: the others' reads (p99);
* 500 uploads by one customer, as many at once as are not refused: another's upload;
* uploads by one customer on 50 connections at the limits of the settings, so that most are refused: another's reads;
* expensive reads, made-up API keys, compressed bodies, static files and probes, each on 40 connections of one address
  without a pause: another's reads;
* a batch of 50,000 requests is accepted while SQLite is written: the longest wait of another writer.
"""

import asyncio
import gzip
import io
import itertools
import json
import sqlite3
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil
from PIL import Image

from tests.benchmarks._table import Comparison, arguments, publish
from tests.running_stoa import RunningStoa, start_stoa, stop_stoa

ATTACKER, READS, IDLE_UPLOADS, PARALLEL_UPLOADS, FLOOD_CONNECTIONS = "127.0.0.2", 200, 15, 16, 50
REQUEST_CONNECTIONS = 40
EXPENSIVE_READ = "/api/products?limit=100&with=type;shop;categories;tags;variations"
COMPRESSED = gzip.compress(b"[" + b"0," * (5 * 2**20 - 2) + b"0]")  # 10 MiB in 10 kB
Request = Callable[[int], dict[str, Any]]
REQUESTS: dict[str, Request] = {  # of one address without a pause; each URL is a new one, so that no cache has it
    "reads of 100 products with all relations": lambda number: get(f"{EXPENSIVE_READ}&new={number}"),
    "made-up API keys": lambda number: get("/api/me", Authorization=f"Bearer stoa_{number:012}_{'made_up' * 6}"),
    "bodies of 10 MiB in 10 kB": lambda number: {
        "method": "POST",
        "url": "/api/addresses",
        "content": COMPRESSED,
        "headers": {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    },
    "static files": lambda number: get(f"/static/none-{number}.css"),
    "probes": lambda number: get("/readyz"),
}
PASSWORD = "neighbours all around"
SETTINGS = {
    "STOA_UPLOADS_PER_MINUTE": "100000",  # else the limit of ten a minute would be measured
    "STOA_MAX_UNVERIFIED_ATTACHMENTS": "100000",
    "STOA_MAX_UNVERIFIED_ATTACHMENT_BYTES": "10GiB",
    "STOA_LOGINS_PER_MINUTE": "1000",
    "STOA_REQUESTS_PER_MINUTE": "100000",
}
HALF_HEAD = b"GET /api/products HTTP/1.1\r\nHost: localhost\r\nX-Half: "
SLOW_BODY = (
    b"POST /api/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nContent-Type: application/json\r\n\r\n"
)


def p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[18]


def p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


def get(url: str, **headers: str) -> dict[str, Any]:
    return {"method": "GET", "url": url, "headers": headers}


async def read_seconds(url: str) -> list[float]:
    """Return the seconds of each of many reads by one client."""
    taken = []
    async with httpx2.AsyncClient(timeout=60) as client:
        for _ in range(READS):
            began = time.perf_counter()
            answer = await client.get(f"{url}/api/products?limit=20")
            taken.append(time.perf_counter() - began)
            assert answer.status_code == 200, answer.text
    return taken


async def hold_connections(url: str, count: int, beginning: bytes, ending: asyncio.Event) -> int:
    """Hold connections from one address: send their beginning and then a byte a second, again on those that end.

    Return how many tries the server or the system ended.
    """
    where, ended = urlsplit(url), 0

    async def hold() -> None:
        nonlocal ended
        while not ending.is_set():
            try:
                _, writer = await asyncio.open_connection(where.hostname, where.port, local_addr=(ATTACKER, 0))
                writer.write(beginning)
                while not ending.is_set():
                    await asyncio.sleep(1)
                    writer.write(b"x")
                    await writer.drain()
                writer.close()
            except OSError:
                ended += 1
                await asyncio.sleep(1)

    await asyncio.gather(*(hold() for _ in range(count)))
    return ended


def open_connections(url: str) -> int:
    """Return the connections from the attacker's address that the server has open."""
    port = urlsplit(url).port
    return sum(
        1
        for connection in psutil.net_connections("tcp")
        if connection.laddr and connection.laddr.port == port
        and connection.raddr and connection.raddr.ip == ATTACKER and connection.status == psutil.CONN_ESTABLISHED
    )  # fmt: skip


async def slow_connections(url: str, count: int) -> list[tuple[str, float, float]]:
    """Return the others' p99 in milliseconds while connections are held, and without them, for each kind of attack."""
    rows = []
    await read_seconds(url)
    for name, beginning in (("half-sent heads", HALF_HEAD), ("bodies at 1 B/s", SLOW_BODY)):
        idle = p99(await read_seconds(url))
        ending = asyncio.Event()
        attack = asyncio.create_task(hold_connections(url, count, beginning, ending))
        await asyncio.sleep(2)
        attacked = p99(await read_seconds(url))
        held = open_connections(url)
        ending.set()
        print(f"{count} {name}: {held} connections are open, {await attack} tries ended")
        assert held > min(count, 1024) / 2, "The attack did not take place."
        rows.append((f"{count} {name} from one address", 1000 * attacked, 1000 * idle))
    return rows


def picture(number: int) -> dict[str, Any]:
    content = io.BytesIO()
    Image.effect_noise((600, 600), 50 + number % 50).save(content, "PNG")
    return {"attachment[]": (f"{number}.png", content.getvalue(), "image/png")}


async def token_of(client: httpx2.AsyncClient, name: str) -> str:
    body = {"email": f"{name}@example.com", "name": name, "password": PASSWORD}
    answer = await client.post("/api/register", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


async def uploads(url: str, count: int) -> tuple[float, float]:
    """Return the median milliseconds of one customer's upload beside another's many, and on an idle server."""
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        attacker, victim = await token_of(client, "attacker"), await token_of(client, "victim")

        statuses = Counter[int]()

        async def upload(token: str, number: int) -> float:
            began = time.perf_counter()
            headers = {"Authorization": f"Bearer {token}"}
            answer = await client.post("/api/attachments", files=files[number % len(files)], headers=headers)
            assert token == attacker or answer.status_code == 200, answer.text
            statuses[answer.status_code] += token == attacker
            return 1000 * (time.perf_counter() - began)

        files = [picture(number) for number in range(10)]
        idle = [await upload(victim, number) for number in range(IDLE_UPLOADS)]
        numbers = iter(range(count))

        async def attack() -> None:
            for number in numbers:
                await upload(attacker, number)

        attacks = [asyncio.create_task(attack()) for _ in range(PARALLEL_UPLOADS)]
        await asyncio.sleep(2)
        beside = []
        while not all(task.done() for task in attacks):
            beside.append(await upload(victim, len(beside)))
        await asyncio.gather(*attacks)
    print(f"one customer's {count} uploads: {dict(statuses)}, another's meanwhile: {len(beside)}")
    assert statuses[200] > count / 2, "The attack did not take place."
    return statistics.median(beside), statistics.median(idle)


async def flood(url: str) -> tuple[float, float]:
    """Return the median milliseconds of a read beside a customer who floods the uploads, and on an idle server."""
    await read_seconds(url)
    idle = statistics.median(await read_seconds(url))
    answers = Counter[str]()
    transport = httpx2.AsyncHTTPTransport(local_address=ATTACKER, limits=httpx2.Limits(max_connections=None))
    async with httpx2.AsyncClient(base_url=url, timeout=300, transport=transport) as client:
        headers = {"Authorization": f"Bearer {await token_of(client, 'flood')}"}
        file = picture(0)
        ending = asyncio.Event()

        async def send() -> None:
            while not ending.is_set():
                try:
                    answer = await client.post("/api/attachments", files=file, headers=headers)
                    answers[str(answer.status_code)] += 1
                except httpx2.HTTPError as error:  # refused before its body was read
                    answers[type(error).__name__] += 1

        attacks = [asyncio.create_task(send()) for _ in range(FLOOD_CONNECTIONS)]
        await asyncio.sleep(3)
        beside = statistics.median(await read_seconds(url))
        ending.set()
        await asyncio.gather(*attacks)
    print(f"the flood's answers: {dict(answers)}")
    return 1000 * beside, 1000 * idle


async def reads_beside(url: str, address: str, request: Request) -> tuple[list[float], Counter[int]]:
    """Return the seconds of reads beside such requests of one address without a pause, and their statuses."""
    statuses, numbers, ending = Counter[int](), itertools.count(), asyncio.Event()
    transport = httpx2.AsyncHTTPTransport(local_address=address, limits=httpx2.Limits(max_connections=None))
    async with httpx2.AsyncClient(base_url=url, timeout=300, transport=transport) as client:

        async def send() -> None:
            while not ending.is_set():
                statuses[(await client.request(**request(next(numbers)))).status_code] += 1

        attacks = [asyncio.create_task(send()) for _ in range(REQUEST_CONNECTIONS)]
        await asyncio.sleep(2)
        seconds = await read_seconds(url)
        ending.set()
        await asyncio.gather(*attacks)
    return seconds, statuses


async def requests_without_a_pause(url: str) -> list[tuple[str, float, float]]:
    """Return another's median and p95 of a read, in milliseconds, beside each kind of request, and without it."""
    rows = []
    for number, (name, request) in enumerate(REQUESTS.items()):
        await asyncio.sleep(60)  # the reads of before no longer count for the limit
        idle = await read_seconds(url)
        beside, statuses = await reads_beside(url, f"127.0.1.{1 + number}", request)
        print(f"answers to {name}: {dict(statuses)}")
        assert statuses.total() >= REQUEST_CONNECTIONS, "The attack did not take place."
        rows.append((f"{name}: another's read", 1000 * statistics.median(beside), 1000 * statistics.median(idle)))
        rows.append((f"{name}: p95", 1000 * p95(beside), 1000 * p95(idle)))
    return rows


class Writer(threading.Thread):
    """A thread that asks for SQLite's write lock again and again; `longest_ms` is its longest wait."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file, self.ending = file, threading.Event()
        self.longest_ms = 0.0

    def run(self) -> None:
        connection = sqlite3.connect(self._file, timeout=60, isolation_level=None)
        while not self.ending.is_set():
            began = time.perf_counter()
            try:
                connection.execute("BEGIN IMMEDIATE")
            finally:  # a wait that ends with an error counts
                self.longest_ms = max(self.longest_ms, 1000 * (time.perf_counter() - began))
            connection.execute("ROLLBACK")
            time.sleep(0.002)
        connection.close()


def longest_wait_ms(file: Path, action: Any) -> float:
    """Return the longest wait of another writer during the action."""
    writer = Writer(file)
    writer.start()
    try:
        action()
    finally:
        writer.ending.set()
        writer.join()
    return writer.longest_ms


def large_batch(stoa: RunningStoa, home: Path, count: int) -> tuple[float, float]:
    """Return the longest wait of a writer in milliseconds: while the batch is accepted, and without it."""
    (file,) = {path for path in home.rglob("*.sqlite3") if is_database_of_batches(path)}
    requests = [{"id": str(number), "prompt": f"Product {number} is"} for number in range(count)]
    body = json.dumps({"model": "stoa-describer", "requests": requests, "max_tokens": 1})
    taken = 0.0

    def accept() -> None:
        nonlocal taken
        began = time.perf_counter()
        headers = stoa.headers() | {"Content-Type": "application/json"}
        answer = httpx2.post(f"{stoa.inference_url}/batch", content=body, headers=headers, timeout=300)
        assert answer.status_code in (200, 201, 202), answer.text
        taken = time.perf_counter() - began

    idle = longest_wait_ms(file, lambda: time.sleep(count / 5000))  # about as long as the batch takes
    beside = longest_wait_ms(file, accept)
    print(f"a batch of {count} was accepted in {taken:.1f} s")
    return beside, idle


def is_database_of_batches(file: Path) -> bool:
    with sqlite3.connect(file) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE '%batch%'").fetchone()
    return bool(tables[0])


def main() -> None:
    given = arguments(str(__doc__).partition("\n")[0])
    connections, many, size = (500, 100, 5000) if given.quick else (2000, 500, 50_000)
    with tempfile.TemporaryDirectory(prefix="stoa-neighbours-") as home, ExitStack() as running:
        stoa = start_stoa(Path(home), **SETTINGS)
        running.callback(stop_stoa, stoa)
        slow = asyncio.run(slow_connections(stoa.commerce_url, connections))
        beside, idle = asyncio.run(uploads(stoa.commerce_url, many))
        waited, undisturbed = large_batch(stoa, Path(home), size)
    with tempfile.TemporaryDirectory(prefix="stoa-neighbours-") as home, ExitStack() as running:
        stoa = start_stoa(Path(home))
        running.callback(stop_stoa, stoa)
        flooded, quiet = asyncio.run(flood(stoa.commerce_url))
        requests = asyncio.run(requests_without_a_pause(stoa.commerce_url))
    print("measured: beside the attack; baseline: idle")
    rows = [Comparison(f"N9, {name}: others' p99", measured, before, "ms") for name, measured, before in slow]
    rows.append(Comparison(f"N11, {many} uploads by one: another's", beside, idle, "ms"))
    rows.append(Comparison(f"{FLOOD_CONNECTIONS} connections with uploads: another's read", flooded, quiet, "ms"))
    rows += [Comparison(name, measured, before, "ms") for name, measured, before in requests]
    rows.append(Comparison(f"N12, a batch of {size}: longest wait to write", waited, undisturbed, "ms"))
    publish(rows, given.json)


if __name__ == "__main__":
    main()
