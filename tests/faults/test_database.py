"""Rows D1 to D3, on SQLite: concurrent writers, a lock held by another program, and a server killed during writes."""

import contextlib
import json
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.commerce.live_server import (
    REPOSITORY,
    ServedShop,
    copy_shop,
    served_shop,
    shop_environment,
    start_server,
    url_of,
)

THREADS = (8, 1, 1)  # in each process
LOCK_TIMEOUT_SECONDS = 8  # a server's, for the write lock
# Inserts the ledger entries of 2,000 refunds of 0.01.
INSERT_ENTRIES = """
    WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 2000)
    INSERT INTO commerce_analytics_entry (source, source_id, happened_at, shop_id, currency, status, customer_id,
        product_id, orders, revenue, refunds, customers, units, stars, reviews)
    SELECT 0, n, '2026-01-01 12:00:00', 0, 'EUR', '', 0, 0, 0, 0, 1, 0, 0, 0, 0 FROM counted
"""
ADDRESS = {"street_address": "1 Rue de Rivoli", "city": "Paris", "zip": "75001", "country": "FR"}


def stored(home: str | Path, query: str) -> list[Any]:
    """Read the first column of a query as another program, from the shop's database."""
    with contextlib.closing(sqlite3.connect(f"{home}/stoa.sqlite3", timeout=30)) as database:
        database.create_function(
            "regexp", 2, lambda pattern, text: bool(re.search(pattern, text))
        )  # a function of Django's
        return [row[0] for row in database.execute(query)]


@pytest.mark.timeout(1800)
def test_d1_concurrent_writers_never_find_the_database_locked(tmp_path: Path, whole: bool):
    """Eight threads of one process and two other processes write: every order is placed, and the stock is exact."""
    orders_per_thread = 1000 if whole else 40
    orders = orders_per_thread * sum(THREADS)
    environment = shop_environment(str(tmp_path))
    copy_shop(tmp_path)
    product = (
        "SELECT {} FROM commerce_catalog_product WHERE product_type = 'simple' AND status = 'publish' "
        "ORDER BY id LIMIT 1"
    )
    with contextlib.closing(sqlite3.connect(tmp_path / "stoa.sqlite3")) as database, database:
        database.execute("UPDATE commerce_catalog_product SET quantity = ?", [orders])
    sold = stored(tmp_path, product.format("sold_quantity"))[0]
    before = stored(tmp_path, "SELECT count(*) FROM commerce_orders_order")[0]

    command = [sys.executable, "-m", "tests.faults._orders", str(orders_per_thread)]
    running = [
        subprocess.Popen([*command, str(threads)], cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True)
        for threads in THREADS
    ]
    outcomes = [json.loads(process.communicate(timeout=1700)[0]) for process in running]

    assert outcomes == [{"placed": orders_per_thread * threads} for threads in THREADS]
    assert stored(tmp_path, product.format("quantity")) == [0]
    assert stored(tmp_path, product.format("sold_quantity")) == [sold + orders]
    assert stored(tmp_path, "SELECT count(*) FROM commerce_orders_order") == [before + 2 * orders]


@contextlib.contextmanager
def foreign_lock(home: Path, first: str = "") -> Iterator[None]:
    """Hold the write lock as another program; `first` is committed before."""
    with contextlib.closing(sqlite3.connect(home / "stoa.sqlite3", isolation_level=None, timeout=30)) as database:
        database.executescript(first)
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


def add_address(url: str, headers: dict[str, str], customer: int, title: str) -> httpx2.Response:
    body = {"title": title, "type": "billing", "customer_id": customer, "address": ADDRESS}
    return httpx2.post(f"{url}/api/addresses", json=body, headers=headers, timeout=120)


def own_id(shop: ServedShop, headers: dict[str, str]) -> int:
    return int(httpx2.get(f"{shop.url}/api/me", headers=headers, timeout=60).json()["id"])


@pytest.mark.timeout(300)
def test_d2_a_foreign_lock_leaves_reads_working_and_writes_get_503_with_retry_after():
    with served_shop(provider_url="http://127.0.0.1:9") as shop:
        headers = shop.headers("CUSTOMER")
        customer, home = own_id(shop, headers), shop.log.parent
        writes: list[httpx2.Response] = []
        reads: list[int] = []
        with foreign_lock(home):
            writers = [
                threading.Thread(target=lambda n=n: writes.append(add_address(shop.url, headers, customer, str(n))))
                for n in range(4)
            ]
            for writer in writers:
                writer.start()
            while any(writer.is_alive() for writer in writers):
                reads.append(httpx2.get(f"{shop.url}/api/products", timeout=120).status_code)
                reads.append(httpx2.get(f"{shop.url}/api/addresses", headers=headers, timeout=120).status_code)
                time.sleep(0.05)
            for writer in writers:
                writer.join()

        assert [response.status_code for response in writes] == [503] * 4
        assert all(int(response.headers["Retry-After"]) <= 10 for response in writes)
        assert all(response.json()["code"] == "unavailable" for response in writes)
        assert max(response.elapsed.total_seconds() for response in writes) < 100
        assert len(reads) > 10
        assert set(reads) == {200}
        assert stored(home, "SELECT count(*) FROM commerce_addresses_address WHERE title IN ('0', '1', '2', '3')") == [
            0
        ]
        assert add_address(shop.url, headers, customer, "after").status_code == 201


@pytest.mark.timeout(300)
def test_d2_a_foreign_lock_does_not_delay_analytics_or_requests_with_an_api_key():
    """Ledger entries wait for aggregation then, and the key's first use is not yet recorded."""
    with served_shop(provider_url="http://127.0.0.1:9") as shop:
        key, home = {"X-API-Key": shop.api_key("SUPER_ADMIN")}, shop.log.parent
        before = httpx2.get(f"{shop.url}/api/analytics", headers=shop.headers("SUPER_ADMIN"), timeout=60).json()
        key_used = "SELECT last_used_at IS NOT NULL FROM accounts_apikey"
        with foreign_lock(home, first=INSERT_ENTRIES):
            assert stored(home, "SELECT count(*) FROM commerce_analytics_entry")[0] > 1000
            reads = [
                httpx2.get(f"{shop.url}/api/{path}", headers=key, timeout=60)
                for path in ("analytics", "top-rate-product", "addresses", "analytics")
            ]
            assert stored(home, key_used) == [0]

        assert [response.status_code for response in reads] == [200] * 4
        assert max(response.elapsed.total_seconds() for response in reads) < LOCK_TIMEOUT_SECONDS / 2
        assert reads[-1].json()["totalRefunds"] == before["totalRefunds"] + 20
        assert httpx2.get(f"{shop.url}/api/analytics", headers=key, timeout=60).status_code == 200
        assert stored(home, key_used) == [1]


@dataclass
class Writers:
    """Threads that write until the server is gone; `acknowledged` are the titles of successful writes."""

    url: str
    headers: dict[str, str]
    customer: int
    prefix: str
    acknowledged: list[str] = field(default_factory=list)

    def start(self, count: int = 4) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        return threads

    def _write(self, number: int) -> None:
        attempt = 0
        while True:
            title, attempt = f"{self.prefix} {number} {attempt}", attempt + 1
            try:
                response = add_address(self.url, self.headers, self.customer, title)
            except httpx2.TransportError:
                return
            assert response.status_code == 201, response.text
            self.acknowledged.append(title)


@pytest.mark.timeout(1800)
def test_d3_acknowledged_writes_survive_repeated_kills_of_the_server(tmp_path: Path, whole: bool):
    kills, dice = 50 if whole else 4, random.Random(3)
    environment = shop_environment(str(tmp_path))
    users = copy_shop(tmp_path)
    count = 0
    for number in range(kills):
        with contextlib.closing(sqlite3.connect(tmp_path / "stoa.sqlite3")) as database, database:
            database.execute("DELETE FROM commerce_addresses_address")  # a customer has at most 100
        acknowledged: list[str] = []
        log = tmp_path / f"log-{number}"
        process = start_server(environment, log)
        try:
            shop = ServedShop(url_of(process, log), users, log, environment)
            headers = shop.headers("CUSTOMER")
            writers = Writers(shop.url, headers, own_id(shop, headers), f"run {number}", acknowledged)
            threads = writers.start()
            time.sleep(dice.uniform(0.2, 1.2))
        finally:
            process.kill()
            process.wait(30)
        for thread in threads:
            thread.join(120)
        stored_titles = set(stored(tmp_path, "SELECT title FROM commerce_addresses_address"))
        assert set(acknowledged) <= stored_titles
        assert stored(tmp_path, "PRAGMA integrity_check") == ["ok"]
        count += len(acknowledged)

    assert count > kills  # the kills came during writes
