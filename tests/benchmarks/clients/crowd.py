"""A crowd of clients on all of Stoa, on SQLite and PostgreSQL: what it refuses, how long it takes, how it recovers.

Each client is a customer with an address of their own, who reads, signs in, orders, uploads and chats without a pause
("rush"), or at 80 % of the rate that the servers reached with 16 clients ("80 %"). `CROWD_MINUTES=N` sets the minutes
of each run (5). Every refusal must be 429, or 503, with a Retry-After, and every kind must be answered, else the
benchmark fails.
"""

import asyncio
import io
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from PIL import Image

from tests.benchmarks._table import Comparison, arguments, publish
from tests.postgresql import LocalPostgresql, find_binaries
from tests.running_stoa import RunningStoa, start_stoa, stop_stoa

CROWDS, CAPACITY_CLIENTS, SHARE_OF_CAPACITY = (64, 256), 16, 0.8
IDLE_ROUNDS, RECOVERY_TIMEOUT_S = 15, 120.0
PROMISES = ("kinds without an answer", "refusals without 429 or 503")  # the benchmark fails above 0
ARRIVAL_S = 5.0  # in which the clients of a rush arrive
PASSWORD = "a crowd of one"
PLENTY = 10_000_000
MODEL = "stoa-describer"
KINDS = (
    "read",
    "read",
    "read",
    "read",
    "read",
    "read",
    "order",
    "upload",
    "chat",
    "sign in",
)  # in the order of a client
SETTINGS = {
    "STOA_TRUSTED_PROXY_COUNT": "1",  # clients name their addresses
    "STOA_KEY_CONCURRENCY_LIMIT": "1000",  # all chats have one key: they stand for many customers of one storefront
    "STOA_USER_CONCURRENCY_LIMIT": "1000",
    "STOA_KEY_REQUESTS_PER_MINUTE": "1000000",
    "STOA_USER_REQUESTS_PER_MINUTE": "1000000",
    "STOA_KEY_TOKENS_PER_MINUTE": "1000000000",
    "STOA_USER_TOKENS_PER_MINUTE": "1000000000",
    "STOA_UPLOADS_PER_MINUTE": "100000",
    "STOA_LOGINS_PER_MINUTE": "100000",
    "STOA_REQUESTS_PER_MINUTE": "100000",
    "STOA_MAX_UNVERIFIED_ATTACHMENTS": "100000",
}
Action = Callable[[httpx2.AsyncClient], Awaitable[httpx2.Response]]


@dataclass
class Run:
    """The outcomes of a run, and by kind the seconds of each answered request and when it began.

    lasted_s: until the last response.
    """

    name: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    began_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    lasted_s: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def record(self, kind: str, response: httpx2.Response, began: float) -> None:
        self.lasted_s = time.monotonic() - self.began
        self.outcomes["answered" if response.is_success else "refused"] += 1
        if response.is_success:
            self.seconds[kind].append(time.monotonic() - began)
            self.began_s[kind].append(began - self.began)
        elif response.status_code not in (429, 503) or "Retry-After" not in response.headers:
            self.wrong[f"{kind}: {response.status_code} {response.text[:200]}"] += 1

    @property
    def rate(self) -> float:
        return self.outcomes["answered"] / self.lasted_s if self.lasted_s else 0.0

    def slowest_began_s(self, kind: str) -> tuple[float, float]:
        """Return when the first and the last of the slowest hundredth of these requests began, in seconds."""
        slow = percentile(self.seconds[kind], 99)
        began = [at for at, taken in zip(self.began_s[kind], self.seconds[kind], strict=True) if taken >= slow]
        return (min(began), max(began)) if began else (0.0, 0.0)

    @property
    def refused_percent(self) -> float:
        return 100 * self.outcomes["refused"] / max(1, self.outcomes.total())


def percentile(seconds: Sequence[float], percent: int) -> float:
    return statistics.quantiles(seconds, n=100)[percent - 1] if len(seconds) > 1 else seconds[0]


class Customer:
    """One client, with an address and an account."""

    def __init__(self, stoa: RunningStoa, number: int, product: int, slug: str) -> None:
        self._shop, self._models, self._key = stoa.commerce_url, stoa.inference_url, stoa.api_key
        self._number, self._product, self._slug = number, product, slug
        self._address = {"X-Forwarded-For": f"2001:db8:{number:x}::1"}
        self._orders = itertools.count(1)
        self._token = ""
        self.actions: dict[str, Action] = {
            "read": self._read,
            "order": self._order,
            "upload": self._upload,
            "chat": self._chat,
            "sign in": self._sign_in,
        }

    async def register(self, client: httpx2.AsyncClient) -> None:
        body = {"email": f"crowd{self._number}@example.com", "name": f"Crowd {self._number}", "password": PASSWORD}
        answer = await client.post(f"{self._shop}/api/register", json=body, headers=self._address)
        assert answer.status_code == 201, answer.text
        self._token = answer.json()["token"]

    def _headers(self) -> dict[str, str]:
        return self._address | {"Authorization": f"Bearer {self._token}"}

    async def _read(self, client: httpx2.AsyncClient) -> httpx2.Response:
        paths = (
            "/api/products?limit=20&with=type;shop",
            f"/api/products/{self._product}",
            "/api/categories",
            "/shop/",
            f"/shop/products/{self._slug}/",
        )
        path = paths[next(self._orders) % len(paths)]
        return await client.get(f"{self._shop}{path}", headers=self._address)

    async def _order(self, client: httpx2.AsyncClient) -> httpx2.Response:
        body = {"products": [{"product_id": self._product, "order_quantity": 1}]}
        key = {"Idempotency-Key": f"crowd-{self._number}-{next(self._orders)}"}
        return await client.post(f"{self._shop}/api/orders", json=body, headers=self._headers() | key)

    async def _upload(self, client: httpx2.AsyncClient) -> httpx2.Response:
        picture = io.BytesIO()
        Image.new("RGB", (64, 64), (self._number % 256, next(self._orders) % 256, 80)).save(picture, "PNG")
        files = {"attachment[]": ("picture.png", picture.getvalue(), "image/png")}
        return await client.post(f"{self._shop}/api/attachments", files=files, headers=self._headers())

    async def _chat(self, client: httpx2.AsyncClient) -> httpx2.Response:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "The lamp"}], "max_tokens": 16}
        headers = self._address | {"Authorization": f"Bearer {self._key}"}
        return await client.post(f"{self._models}/v1/chat/completions", json=body, headers=headers)

    async def _sign_in(self, client: httpx2.AsyncClient) -> httpx2.Response:
        body = {"email": f"crowd{self._number}@example.com", "password": PASSWORD}
        return await client.post(f"{self._shop}/api/token", json=body, headers=self._address)


class Crowd:
    """All clients of a demo."""

    def __init__(self, stoa: RunningStoa) -> None:
        product, slug = self._raise_stock(stoa)
        self._customers = [Customer(stoa, number, product, slug) for number in range(1, max(CROWDS) + 1)]

    @staticmethod
    def _raise_stock(stoa: RunningStoa) -> tuple[int, str]:
        """Give one product a stock that never sells out, and return its id and slug."""
        with httpx2.Client(base_url=stoa.commerce_url, headers=stoa.headers(), timeout=60) as client:
            products = client.get("/api/products?limit=100").json()["data"]
            product = next(product for product in products if product["product_type"] == "simple")
            answer = client.put(f"/api/products/{product['id']}", json={"quantity": PLENTY})
            assert answer.status_code == 200, answer.text
        return int(product["id"]), product["slug"]

    async def register(self) -> None:
        async with new_client() as client:
            for customer in self._customers:
                await customer.register(client)

    async def run(self, name: str, count: int, seconds: float, rate: float | None = None) -> Run:
        """Let this many clients act, as often as they can or `rate` times a second together."""
        run = Run(name)
        began = run.began
        interval = count / rate if rate else 0.0

        async def act(client: httpx2.AsyncClient, customer: Customer, number: int) -> None:
            due = began + (number / count) * (interval or ARRIVAL_S)
            for step in itertools.count(number):
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if time.monotonic() - began > seconds:
                    return
                await self._act(customer, client, KINDS[step % len(KINDS)], run, due if rate else None)
                due += interval

        async with new_client() as client:
            customers = enumerate(self._customers[:count])
            await asyncio.gather(*(act(client, customer, number) for number, customer in customers))
        return run

    async def idle(self) -> Run:
        """Let one client do everything one after the other."""
        run = Run("1 client")
        async with new_client() as client:
            for _ in range(IDLE_ROUNDS):
                for kind in dict.fromkeys(KINDS):
                    await self._act(self._customers[0], client, kind, run)
        return run

    async def recovery_seconds(self, idle: Run) -> float:
        """Return after how many seconds one client has each kind of answer within twice the p99 of before the crowd."""
        began = time.monotonic()
        async with new_client() as client:
            while time.monotonic() - began < RECOVERY_TIMEOUT_S:
                now = Run("after")
                passed = time.monotonic() - began
                for kind in idle.seconds:
                    await self._act(self._customers[0], client, kind, now)
                if not now.outcomes["refused"] and all(
                    now.seconds[kind][0] <= 2 * percentile(idle.seconds[kind], 99) for kind in idle.seconds
                ):
                    return passed
        return RECOVERY_TIMEOUT_S

    async def _act(
        self, customer: Customer, client: httpx2.AsyncClient, kind: str, run: Run, due: float | None = None
    ) -> None:
        """Act once. The time counts from when the request was due."""
        began = due or time.monotonic()
        try:
            response = await customer.actions[kind](client)
        except httpx2.HTTPError as error:
            run.outcomes["refused"] += 1
            run.wrong[f"{kind}: {type(error).__name__}"] += 1
            return
        run.record(kind, response, began)
        if not response.is_success:
            await asyncio.sleep(min(1.0, float(response.headers.get("Retry-After", 1))))


def new_client() -> httpx2.AsyncClient:
    """Return a client with as many connections as it has requests at once."""
    return httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None))


async def measure(crowd: Crowd, database: str, seconds: float) -> list[Comparison]:
    await crowd.register()
    await crowd.idle()  # everything is imported and connected then
    idle = await crowd.idle()
    assert not idle.wrong, idle.wrong
    capacity = await crowd.run(f"{CAPACITY_CLIENTS} clients", CAPACITY_CLIENTS, min(60.0, seconds))
    print_run(database, idle)
    print_run(database, capacity)
    rows = []
    for count, share in itertools.product(CROWDS, (None, SHARE_OF_CAPACITY)):
        rate = capacity.rate * share if share else None
        name = f"{count} clients, {f'{share:.0%}' if share else 'rush'}"
        running = asyncio.create_task(crowd.run(name, count, seconds, rate))
        await asyncio.sleep(seconds)  # then no further request is sent, and the last ones wait for their responses
        recovery = await crowd.recovery_seconds(idle)
        run = await running
        print_run(database, run)
        for wrong, times in run.wrong.most_common(5):
            print(f"    WRONG {times} times: {wrong}")
        name = f"{database}, {run.name}: "
        slowest = max((percentile(taken, 99) / percentile(taken, 50) for taken in run.seconds.values()), default=0.0)
        broken = (len(set(KINDS) - set(run.seconds)), sum(run.wrong.values()))
        rows += [Comparison(f"{name}{promise}", count, 1, "") for promise, count in zip(PROMISES, broken, strict=True)]
        if share:
            rows.append(Comparison(f"{name}refused", run.refused_percent, 1, "%"))
        rows.append(Comparison(f"{name}p99 of the worst kind over its p50", slowest, 10, ""))
        rows.append(Comparison(f"{name}recovered after", recovery, 5, "s"))
    return rows


def print_run(database: str, run: Run) -> None:
    print(f"{database}, {run.name}: {run.rate:.1f} answers/s, {run.refused_percent:.2f} % refused")
    for kind, taken in sorted(run.seconds.items()):
        p50, p99 = percentile(taken, 50) * 1000, percentile(taken, 99) * 1000
        first, last = run.slowest_began_s(kind)
        slowest = f"the slowest 1 % began after {first:.0f} to {last:.0f} s"
        print(f"    {kind:8} {len(taken):6} answered, p50 {p50:7.0f} ms, p99 {p99:7.0f} ms, {slowest}", flush=True)


def measure_demo(database: str, seconds: float, **settings: Any) -> list[Comparison]:
    with tempfile.TemporaryDirectory(prefix="stoa-crowd-") as home:
        stoa = start_stoa(Path(home), **SETTINGS, **settings)
        try:
            return asyncio.run(measure(Crowd(stoa), database, seconds))
        finally:
            stop_stoa(stoa)


def main() -> None:
    given = arguments(str(__doc__).partition("\n")[0])
    seconds = 20.0 if given.quick else 60 * float(os.environ.get("CROWD_MINUTES", "5"))
    binaries = find_binaries()
    if binaries is None:
        sys.exit("Not run: PostgreSQL is not installed here.")
    rows = measure_demo("SQLite", seconds)
    with ExitStack() as running:
        server = LocalPostgresql(binaries)
        running.callback(server.stop)
        server.start()
        rows += measure_demo("PostgreSQL", seconds, DATABASE_URL=server.url)
    print("\nmeasured; baseline: the most that is allowed (less is better)")
    publish(rows, given.json)
    if broken := [f"{row.name}: {row.measured:.0f}" for row in rows if row.name.endswith(PROMISES) and row.measured]:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
