"""Rows D4, D5 and O6: a PostgreSQL server that crashes under load and restarts, or has too few connections."""

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
from tests.commerce.live_server import ServedShop, copy_shop, shop_environment, start_server, url_of
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

TIMEOUT_SECONDS = 60
COUNT_IDLE_CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
BODY = {"model": "talker", "prompt": "speak", "max_tokens": 3}


@dataclass
class Load:
    """Clients that repeat a request until `end`; `statuses` counts the responses by status."""

    statuses: Counter[int] = field(default_factory=Counter)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, clients: int, send: Callable[[], httpx2.Response]) -> None:
        self._threads += [threading.Thread(target=self._repeat, args=(send,)) for _ in range(clients)]
        for thread in self._threads[-clients:]:
            thread.start()

    def end(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)

    def _repeat(self, send: Callable[[], httpx2.Response]) -> None:
        while not self._stopping.is_set():
            self.statuses[send().status_code] += 1


@contextmanager
def shop_on(database: LocalPostgresql) -> Iterator[ServedShop]:
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        environment = shop_environment(home) | {"DATABASE_URL": database.url}
        users, log = copy_shop(home, database.url), Path(home) / "log"
        process = start_server(environment, log)
        try:
            yield ServedShop(url_of(process, log), users, log, environment)
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def talker_on(database: LocalPostgresql, **variables: str) -> Iterator[RunningServer]:
    with tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        models_dir = Path(home) / "models"
        add_model(models_dir, "talker", dict(TALKER_CONFIG))
        extra = {"DATABASE_URL": database.url} | variables
        with running_server(Path(home), host.run_dir, models_dir, load=["talker"], extra=extra) as stoa:
            yield stoa


def eventually(url: str, path: str, status: int) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (response := httpx2.get(url + path, timeout=TIMEOUT_SECONDS)).status_code != status:
        assert time.monotonic() < deadline, response.text
        time.sleep(0.1)


def check_unready_but_alive(url: str) -> None:
    eventually(url, "/readyz", 503)
    error = httpx2.get(f"{url}/readyz", timeout=TIMEOUT_SECONDS).json()
    assert error["checks"]["database"] == "failed"
    assert httpx2.get(f"{url}/livez", timeout=TIMEOUT_SECONDS).status_code == 200


@pytest.mark.timeout(600)
def test_d4_o6_the_shop_survives_a_database_crash_and_keeps_acknowledged_writes(start_postgresql: StartPostgresql):
    database = start_postgresql(outlives_crash=True)
    with shop_on(database) as shop:
        headers, load, acknowledged = shop.headers("CUSTOMER"), Load(), []
        customer = own_id(shop, headers)

        def write() -> httpx2.Response:
            title = f"during {time.monotonic_ns()}"
            response = add_address(shop.url, headers, customer, title)
            if response.status_code == 201:
                acknowledged.append(title)
            return response

        load.begin(3, write)
        load.begin(3, lambda: httpx2.get(f"{shop.url}/api/products", timeout=TIMEOUT_SECONDS))
        time.sleep(1)
        before = len(acknowledged)
        database.crash()
        check_unready_but_alive(shop.url)
        database.launch()
        eventually(shop.url, "/readyz", 200)
        time.sleep(1)
        load.end()

        assert set(load.statuses) == {200, 201, 503}
        assert before < len(acknowledged)
        with psycopg.connect(database.url) as connection:
            stored = connection.execute("SELECT title FROM commerce_addresses_address").fetchall()
        assert set(acknowledged) <= {title for (title,) in stored}


@pytest.mark.timeout(600)
def test_d4_o6_the_model_server_and_its_models_survive_a_database_crash(start_postgresql: StartPostgresql):
    database = start_postgresql()
    with talker_on(database) as stoa:
        load, pid = Load(), pid_of_talker(stoa)
        load.begin(4, lambda: stoa.post("/inference", BODY))
        time.sleep(1)
        database.crash()
        check_unready_but_alive(stoa.url)
        database.launch()
        eventually(stoa.url, "/readyz", 200)
        time.sleep(1)
        load.end()

        assert set(load.statuses) == {200, 503}
        assert stoa.post("/inference", BODY).status_code == 200
        assert pid_of_talker(stoa) == pid


@pytest.mark.timeout(600)
def test_d4_websockets_survive_a_database_crash(start_postgresql: StartPostgresql):
    database = start_postgresql()
    with talker_on(database) as stoa:
        asyncio.run(_speak_during_a_crash(stoa, database))


async def _speak_during_a_crash(stoa: RunningServer, database: LocalPostgresql) -> None:
    request = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak", "max_tokens": 3, "stream": False}
    async with authenticated_websocket(stoa) as client:
        await asyncio.to_thread(database.crash)
        await send_messages(client, request)
        error = await receive_message(client)
        assert (error["code"], error["details"]) == (
            "INFERENCE_FAILED",
            {"reason": "unavailable", "retry_after": 2},
        )
        async with connect(websocket_url(stoa)) as late:
            await send_messages(late, {"type": "auth", "token": stoa.keys["SUPER_ADMIN"]})
            frames, code = await receive_until_closed(late)
        assert ([frame["code"] for frame in frames], code) == (["INFERENCE_FAILED"], 1013)
        await asyncio.to_thread(database.launch)
        await asyncio.to_thread(eventually, stoa.url, "/readyz", 200)
        await send_messages(client, request)
        assert (await receive_message(client))["type"] == "complete"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [1, 15])
def test_d4_a_batch_and_its_worker_survive_a_database_crash(
    start_postgresql: StartPostgresql, tmp_path: Path, seconds: int, whole: bool
):
    count, database = 2000 if whole else 400, start_postgresql(outlives_crash=True)
    with (
        LocalRedis(tmp_path / "redis") as broker,
        talker_on(database, REDIS_URL=broker.url) as stoa,
        running_worker(stoa) as worker,
    ):
        batch_id, done = submit_batch(stoa, *["speak"] * count), 0
        for crashes in range(1, 6 if whole else 2):
            while (now := get_status(stoa, batch_id)["completed"]) <= done:
                time.sleep(0.05)
            done = now
            database.crash()
            time.sleep(seconds)
            database.launch()
            eventually(stoa.url, "/readyz", 200)
            print(f"D4: the database was down for {seconds} s at {done} of {count}, crash {crashes}")
        began = time.monotonic()
        status = wait_until_ended(stoa, batch_id, seconds=300)

        assert (status["status"], status["completed"], status["failed"]) == ("completed", count, 0)
        assert [result["id"] for result in get_results(stoa, batch_id)] == [f"r{number}" for number in range(count)]
        assert worker.process.poll() is None
        recomputed = sum(get_attempts(stoa, batch_id)) - count
        print(f"D4: all done {time.monotonic() - began:.1f} s after the database was back, {recomputed} recomputed")


def pid_of_talker(stoa: RunningServer) -> int:
    return asyncio.run(stoa.pid("talker"))


@pytest.mark.timeout(600)
def test_d5_requests_beyond_the_connections_wait_or_get_503_with_retry_after(start_postgresql: StartPostgresql):
    database = start_postgresql(max_connections=30)
    with (
        shop_on(database) as shop,
        httpx2.Client(timeout=TIMEOUT_SECONDS, limits=httpx2.Limits(max_connections=300)) as client,
    ):
        headers = shop.headers("CUSTOMER")

        def send(_: int) -> httpx2.Response:
            return client.get(f"{shop.url}/api/me", headers=headers)

        with ThreadPoolExecutor(300) as pool:
            responses = list(pool.map(send, range(300)))

        statuses = Counter(response.status_code for response in responses)
        assert set(statuses) <= {200, 503}
        assert statuses[200] >= 30
        assert all("Retry-After" in response.headers for response in responses if response.status_code == 503)
        assert send(0).status_code == 200
        with psycopg.connect(database.url) as connection:
            idle_connections = connection.execute(COUNT_IDLE_CONNECTIONS).fetchall()[0][0]
        assert idle_connections <= 10
