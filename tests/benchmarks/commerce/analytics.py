"""Analytics with 10,000, 100,000 and 1,000,000 orders, on SQLite and PostgreSQL.

Reads are compared with the smallest size, in turns, with the same figures computed from the orders, and with the first
page of django-oscar's dashboard over the same orders. Writes are compared with writes without triggers. At last,
sixteen writers and sixteen readers run concurrently. BENCH_ORDERS=10000,10000000 sets other sizes, and
BENCH_DATABASES=sqlite one database.
"""

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.benchmarks._table import Comparison, arguments, publish
from tests.postgresql import LocalPostgresql, find_binaries

CHECKOUT = Path(__file__).resolve().parents[3]
SIZES = [10_000, 100_000, 1_000_000]
DASHBOARD_MS = 100
MAX_OSCAR_ORDERS = 1_000_000
LOCK_WAIT_MS = 50
ROUNDS = 10


@dataclass
class Database:
    """An empty database, with the environment of the processes that use it."""

    environment: dict[str, str]
    log: Path | None = None

    def run(self, module: str, *words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", f"tests.benchmarks.commerce.{module}", *words]
        done = subprocess.run(command, cwd=CHECKOUT, env=self.environment, stdout=subprocess.PIPE, check=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def lock_waits(self) -> int:
        """Return the number of waits for a lock of more than LOCK_WAIT_MS."""
        return len(re.findall("still waiting for", self.log.read_text())) if self.log else 0


@contextlib.contextmanager
def database(kind: str) -> Iterator[Database]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    with tempfile.TemporaryDirectory(prefix="stoa-bench") as home:
        environment = kept | {"STOA_HOME": home, "REDIS_URL": "", "DATABASE_URL": f"sqlite:///{home}/stoa.sqlite3"}
        if kind == "sqlite":
            yield Database(environment)
            return
        binaries = find_binaries()
        assert binaries
        server = LocalPostgresql(binaries)
        server.start()
        try:
            folder = server.url.partition("host=")[2]
            with psycopg.connect(host=folder, user="postgres", autocommit=True) as connection:
                settings = {"log_lock_waits": "on", "deadlock_timeout": f"'{LOCK_WAIT_MS}ms'", "max_wal_size": "'4GB'"}
                for name, value in settings.items():
                    connection.execute(f"ALTER SYSTEM SET {name} = {value}")  # type: ignore[arg-type]
                connection.execute("SELECT pg_reload_conf()")
            yield Database(environment | {"DATABASE_URL": server.url}, Path(folder) / "log")
        finally:
            server.stop()


def reads_in_turn(shops: list[Database], times: int) -> list[dict[str, list[float]]]:
    """Return the milliseconds of each read on each shop, in turns, so that a slow moment affects all."""
    taken: list[dict[str, list[float]]] = [{} for _ in shops]
    for _ in range(ROUNDS):
        for shop, lists in zip(shops, taken, strict=True):
            for name, took in shop.run("_analytics_shop", "reads", str(times // ROUNDS)).items():
                lists.setdefault(name, []).extend(took)
    return taken


def p50(took: list[float]) -> float:
    return statistics.median(took)


def p95(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.95)]


def compare(kind: str, sizes: list[int], times: int) -> Iterator[Comparison]:
    with database(kind) as smallest:
        for size in sizes:
            with contextlib.nullcontext(smallest) if size == sizes[0] else database(kind) as shop:
                yield from compare_size(kind, size, times, shop, smallest, is_last=size == sizes[-1])


def compare_size(
    kind: str, size: int, times: int, shop: Database, smallest: Database, *, is_last: bool
) -> Iterator[Comparison]:
    results: dict[str, Any] = {"database": kind, "orders": size}

    def add_results(part: dict[str, Any]) -> None:
        results.update(part)
        print(json.dumps(part), file=sys.stderr, flush=True)  # ten million orders take an hour

    add_results(shop.run("_analytics_shop", "make", str(size)))
    *before, reads = reads_in_turn([shop] if shop is smallest else [smallest, shop], times)
    for name, taken in zip(("reads", "the smallest"), (reads, *before), strict=False):
        add_results({name: {read: [p50(took), p95(took)] for read, took in taken.items()}})
    add_results(shop.run("_analytics_shop", "live", "3" if size > 10**5 else "10"))
    if size <= MAX_OSCAR_ORDERS:
        add_results({"oscar": shop.run("_analytics_oscar", "10")})
    if is_last:
        add_results({"writes": shop.run("_analytics_shop", "writes", "5")})
        add_results({"load": shop.run("_analytics_load")})
    where = f"{size:,} orders, {kind}"
    for name, took in reads.items() if before else ():
        yield Comparison(f"{name}, p50: {where}", p50(took), p50(before[0][name]), "ms, the smallest")
        yield Comparison(f"{name}, p95: {where}", p95(took), p95(before[0][name]), "ms, the smallest")
    overview, sales = p50(reads["GET /analytics, platform"]), p50(reads[SALES])
    yield Comparison(f"GET /analytics: {where}", overview, results["live"], "ms, from the orders")
    for name in ("the dashboard, platform", "the dashboard, owner"):
        yield Comparison(f"{name}: {where}", p50(reads[name]), DASHBOARD_MS, "ms, the bound")
    if "oscar" in results:
        yield Comparison(f"GET /analytics: {where}", overview, results["oscar"]["p50"], "ms, django-oscar's dashboard")
    yield Comparison(f"{SALES}: {where}", sales, results["live sales"], "ms, from the orders")
    if not is_last:
        return
    writes, load = results["writes"], results["load"]
    for name in ("an order", "in bulk"):
        yield Comparison(f"{name}: {where}", writes[f"{name} with"], writes[f"{name} without"], "ms, no triggers")
    yield Comparison(f"a read of 16, p99: {where}", load["reads"]["p99"], 1000, "ms, the bound")
    yield Comparison(f"an order of 16, p99: {where}", load["writes"]["p99"], 1000, "ms, the bound")
    yield Comparison(f"lock waits over {LOCK_WAIT_MS} ms: {where}", shop.lock_waits(), 1, "one")


SALES = "GET /category-wise-product-sale, platform"


def main() -> None:
    given = arguments(__doc__ or "")
    sizes = [int(size) for size in os.environ.get("BENCH_ORDERS", "").split(",") if size] or SIZES
    kinds = os.environ.get("BENCH_DATABASES", "sqlite,postgresql").split(",")
    if find_binaries() is None:
        kinds.remove("postgresql")
        print("PostgreSQL is not installed: SQLite alone.", file=sys.stderr)
    rows = [
        row for kind in kinds for row in compare(kind, sizes[:2] if given.quick else sizes, 20 if given.quick else 400)
    ]
    publish(rows, given.json)


if __name__ == "__main__":
    main()
