"""Rows D4, D5 and O6: a PostgreSQL server that ends under load, comes back, or has too few connections for all."""

import asyncio
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psycopg
import pytest
from websockets.asyncio.client import connect

from shared.serving.processes.local_redis import LocalRedis
from tests.commerce.live_server import ServedShop, make_shop, shop_environment, start_server, url_of
from tests.faults.conftest import StartPostgresql
from tests.faults.test_database import add_address, own_id
from tests.inference.batches.workers import (
    get_attempts,
    get_results,
    get_status,
    running_worker,
    submit_batch,
    wait_until_ended,
)
from tests.inference.engine.processes import running_host
from tests.inference.running_server import TALKER_CONFIG, RunningServer, add_model, running_server
from tests.inference.websocket_client import (
    authenticated_websocket,
    receive_message,
    receive_until_closed,
    send_messages,
    websocket_url,
)
from tests.postgresql import LocalPostgresql

MAY_TAKE_S = 60
RESTING = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
BODY = {"model": "talker", "prompt": "speak", "max_tokens": 3}


@dataclass
class Load:
    """What clients do again and again until `end`: every answer's status is counted."""

    statuses: Counter[int] = field(default_factory=Counter)
    _ending: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, clients: int, ask: Callable[[], httpx2.Response]) -> None:
        self._threads += [threading.Thread(target=self._repeat, args=(ask,)) for _ in range(clients)]
        for thread in self._threads[-clients:]:
            thread.start()

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(MAY_TAKE_S)

    def _repeat(self, ask: Callable[[], httpx2.Response]) -> None:
        while not self._ending.is_set():
            self.statuses[ask().status_code] += 1


@contextmanager
def shop_on(database: LocalPostgresql) -> Iterator[ServedShop]:
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        environment = shop_environment(home) | {"DATABASE_URL": database.url}
        users, log = make_shop(environment), Path(home) / "log"
        process = start_server(environment, log)
        try:
            yield ServedShop(url_of(process, log), users, log, environment)
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def talker_on(database: LocalPostgresql, **more: str) -> Iterator[RunningServer]:
    with tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        models_dir = Path(home) / "models"
        add_model(models_dir, "talker", dict(TALKER_CONFIG))
        extra = {"DATABASE_URL": database.url} | more
        with running_server(Path(home), host.run_dir, models_dir, load=["talker"], extra=extra) as stoa:
            yield stoa


def eventually(url: str, path: str, status: int) -> None:
    deadline = time.monotonic() + MAY_TAKE_S
    while (answer := httpx2.get(url + path, timeout=MAY_TAKE_S)).status_code != status:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)


def check_that_it_is_unready_but_alive(url: str) -> None:
    eventually(url, "/readyz", 503)
    refused = httpx2.get(f"{url}/readyz", timeout=MAY_TAKE_S).json()
    assert refused["checks"]["database"] == "failed"
    assert httpx2.get(f"{url}/livez", timeout=MAY_TAKE_S).status_code == 200


@pytest.mark.timeout(600)
def test_d4_o6_the_shop_outlives_its_database_and_keeps_what_it_acknowledged(start_postgresql: StartPostgresql):
    database = start_postgresql(outlives_crash=True)
    with shop_on(database) as shop:
        headers, load, acknowledged = shop.headers("CUSTOMER"), Load(), []
        customer = own_id(shop, headers)

        def write() -> httpx2.Response:
            title = f"during {time.monotonic_ns()}"
            answer = add_address(shop.url, headers, customer, title)
            if answer.status_code == 201:
                acknowledged.append(title)
            return answer

        load.begin(3, write)
        load.begin(3, lambda: httpx2.get(f"{shop.url}/api/products", timeout=MAY_TAKE_S))
        time.sleep(1)
        before = len(acknowledged)
        database.crash()
        check_that_it_is_unready_but_alive(shop.url)
        database.launch()
        eventually(shop.url, "/readyz", 200)
        time.sleep(1)
        load.end()

        assert set(load.statuses) == {200, 201, 503}
        assert before < len(acknowledged)
        with psycopg.connect(database.url) as connection:
            there = connection.execute("SELECT title FROM commerce_addresses_address").fetchall()
        assert set(acknowledged) <= {title for (title,) in there}


@pytest.mark.timeout(600)
def test_d4_o6_the_model_server_outlives_its_database_with_its_models(start_postgresql: StartPostgresql):
    database = start_postgresql()
    with talker_on(database) as stoa:
        load, pid = Load(), pid_of_talker(stoa)
        load.begin(4, lambda: stoa.post("/inference", BODY))
        time.sleep(1)
        database.crash()
        check_that_it_is_unready_but_alive(stoa.url)
        database.launch()
        eventually(stoa.url, "/readyz", 200)
        time.sleep(1)
        load.end()

        assert set(load.statuses) == {200, 503}
        assert stoa.post("/inference", BODY).status_code == 200
        assert pid_of_talker(stoa) == pid


@pytest.mark.timeout(600)
def test_d4_sockets_outlive_their_database(start_postgresql: StartPostgresql):
    database = start_postgresql()
    with talker_on(database) as stoa:
        asyncio.run(_speak_while_it_ends(stoa, database))


async def _speak_while_it_ends(stoa: RunningServer, database: LocalPostgresql) -> None:
    asked = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak", "max_tokens": 3, "stream": False}
    async with authenticated_websocket(stoa) as client:
        await asyncio.to_thread(database.crash)
        await send_messages(client, asked)
        refused = await receive_message(client)
        assert (refused["code"], refused["details"]) == (
            "INFERENCE_FAILED",
            {"reason": "unavailable", "retry_after": 2},
        )
        async with connect(websocket_url(stoa)) as late:
            await send_messages(late, {"type": "auth", "token": stoa.keys["SUPER_ADMIN"]})
            frames, code = await receive_until_closed(late)
        assert ([frame["code"] for frame in frames], code) == (["INFERENCE_FAILED"], 1013)
        await asyncio.to_thread(database.launch)
        await asyncio.to_thread(eventually, stoa.url, "/readyz", 200)
        await send_messages(client, asked)
        assert (await receive_message(client))["type"] == "complete"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [1, 15])
def test_d4_a_batch_and_its_worker_outlive_their_database(
    start_postgresql: StartPostgresql, tmp_path: Path, seconds: int, whole: bool
):
    count, database = 2000 if whole else 400, start_postgresql(outlives_crash=True)
    with (
        LocalRedis(tmp_path / "redis") as broker,
        talker_on(database, REDIS_URL=broker.url) as stoa,
        running_worker(stoa) as worker,
    ):
        batch_id, done = submit_batch(stoa, *["speak"] * count), 0
        for ends in range(1, 6 if whole else 2):
            while (now := get_status(stoa, batch_id)["completed"]) <= done:
                time.sleep(0.05)
            done = now
            database.crash()
            time.sleep(seconds)
            database.launch()
            eventually(stoa.url, "/readyz", 200)
            print(f"D4: the database ended for {seconds} s at {done} of {count}, {ends}")
        began = time.monotonic()
        told = wait_until_ended(stoa, batch_id, seconds=300)

        assert (told["status"], told["completed"], told["failed"]) == ("completed", count, 0)
        assert [result["id"] for result in get_results(stoa, batch_id)] == [f"r{place}" for place in range(count)]
        assert worker.process.poll() is None
        again = sum(get_attempts(stoa, batch_id)) - count
        print(f"D4: all done {time.monotonic() - began:.1f} s after the database was back, {again} computed again")


def pid_of_talker(stoa: RunningServer) -> int:
    return asyncio.run(stoa.pid("talker"))


@pytest.mark.timeout(600)
def test_d5_more_requests_than_connections_wait_or_are_told_to_come_again(start_postgresql: StartPostgresql):
    database = start_postgresql(max_connections=30)
    with (
        shop_on(database) as shop,
        httpx2.Client(timeout=MAY_TAKE_S, limits=httpx2.Limits(max_connections=300)) as client,
    ):
        headers = shop.headers("CUSTOMER")

        def ask(_: int) -> httpx2.Response:
            return client.get(f"{shop.url}/api/me", headers=headers)

        with ThreadPoolExecutor(300) as pool:
            answers = list(pool.map(ask, range(300)))

        statuses = Counter(answer.status_code for answer in answers)
        assert set(statuses) <= {200, 503}
        assert statuses[200] >= 30
        assert all("Retry-After" in answer.headers for answer in answers if answer.status_code == 503)
        assert ask(0).status_code == 200
        with psycopg.connect(database.url) as connection:
            resting = connection.execute(RESTING).fetchall()[0][0]
        assert resting <= 10
