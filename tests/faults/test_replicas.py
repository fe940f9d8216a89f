"""A shop whose reads go to a read replica, which lags and fails."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from shared.serving.processes.local_redis import LocalRedis
from tests.commerce.live_server import ServedShop, copy_shop, shop_environment, start_server, url_of
from tests.faults.conftest import postgresql_servers
from tests.postgresql import LocalPostgresql

LAG_SECONDS, TIMEOUT_SECONDS = 5, 30


@dataclass
class ReplicatedShop:
    shop: ServedShop
    primary: LocalPostgresql
    replica: LocalPostgresql
    owner: dict[str, str]

    def product(self, **headers: str) -> dict[str, Any]:
        answer = httpx2.get(f"{self.shop.url}/api/products/1", headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def rename(self, name: str) -> None:
        answer = httpx2.put(f"{self.shop.url}/api/products/1", json={"name": name}, headers=self.owner, timeout=30)
        assert answer.status_code == 200, answer.text

    def wait_until_all_read(self, name: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.product()["name"] != name:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def product_reads(self, server: LocalPostgresql) -> int:
        found = query(
            server, "SELECT seq_scan + idx_scan FROM pg_stat_user_tables WHERE relname = 'commerce_catalog_product'"
        )
        return int(found)


def query(server: LocalPostgresql, statement: str) -> Any:
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
    assert row
    return row[0]


@pytest.fixture(scope="module")
def replicated() -> Iterator[ReplicatedShop]:
    with (
        postgresql_servers() as start,
        tempfile.TemporaryDirectory(prefix="stoa") as home,
        LocalRedis(Path(home)) as redis,
    ):
        primary = start()
        environment = shop_environment(home) | {
            "DATABASE_URL": primary.url,
            "REDIS_URL": redis.url,
            "STOA_PUBLIC_CACHE_SECONDS": "0",
        }
        users = copy_shop(home, primary.url)
        replica = start(replica_of=primary)
        environment |= {"STOA_REPLICA_URLS": replica.url, "STOA_REPLICA_MAX_LAG_SECONDS": str(LAG_SECONDS)}
        process = start_server(environment, log := Path(home) / "log")
        try:
            shop = ServedShop(url_of(process, log), users, log, environment)
            yield ReplicatedShop(shop, primary, replica, shop.headers("SUPER_ADMIN"))
        finally:
            process.terminate()
            process.wait(30)


def test_reads_go_to_the_replica_while_it_follows_and_everybody_reads_their_own_writes(replicated: ReplicatedShop):
    replicated.rename("Before")
    replicated.wait_until_all_read("Before")
    time.sleep(2 * LAG_SECONDS)  # so that nobody has written recently
    query(replicated.primary, "SELECT pg_stat_reset()::text")
    for _ in range(40):
        assert replicated.product()["name"] == "Before"
        time.sleep(0.05)  # PostgreSQL tells its statistics once a second
    assert replicated.product_reads(replicated.replica) >= 10
    assert replicated.product_reads(replicated.primary) < 20  # those of the shop's own threads

    query(replicated.replica, "SELECT pg_wal_replay_pause()::text")
    replicated.rename("After")
    assert replicated.product()["name"] == "Before"  # which a replica that lags a little may say
    assert replicated.product(**replicated.owner)["name"] == "After"
    replicated.wait_until_all_read("After")  # it lags by too much now
    assert query(replicated.replica, "SELECT name FROM commerce_catalog_product WHERE id = 1") == "Before"

    query(replicated.replica, "SELECT pg_wal_replay_resume()::text")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    reads = replicated.product_reads(replicated.replica)
    while replicated.product_reads(replicated.replica) == reads:
        assert replicated.product()["name"] == "After"
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_replica_that_has_lagged_while_nobody_read_is_not_used(replicated: ReplicatedShop):
    replicated.rename("Then")
    replicated.wait_until_all_read("Then")
    query(replicated.replica, "SELECT pg_wal_replay_pause()::text")
    try:
        replicated.rename("Now")
        time.sleep(2 * LAG_SECONDS)
        assert replicated.product()["name"] == "Now"
    finally:
        query(replicated.replica, "SELECT pg_wal_replay_resume()::text")


def test_a_replica_that_is_gone_costs_no_client_an_error(replicated: ReplicatedShop):
    assert replicated.product()["id"] == 1
    replicated.replica.crash()
    for _ in range(10):
        replicated.product()
        time.sleep(0.2)
    replicated.rename("Without a replica")
    assert replicated.product()["name"] == "Without a replica"
