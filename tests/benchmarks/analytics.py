"""What the figures of the shops cost at 10,000, 100,000 and 1,000,000 orders, on SQLite and PostgreSQL: beside the
smallest size, beside the same figures straight from the orders, beside the first page of django-oscar's dashboard over
the same orders, and beside writes without triggers. Sixteen writers and sixteen readers at once come last.
BENCH_ORDERS=10000,10000000 names other sizes, BENCH_DATABASES=sqlite one database.
"""

import contextlib
import json
import os
import re
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

CHECKOUT = Path(__file__).resolve().parents[2]
SIZES = [10_000, 100_000, 1_000_000]
DASHBOARD_MS = 100
OSCARS_MOST = 1_000_000
LOCK_WAIT_MS = 50


@dataclass
class Database:
    """An empty one."""

    environment: dict[str, str]
    log: Path | None = None

    def run(self, module: str, *words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", f"tests.benchmarks.{module}", *words]
        done = subprocess.run(command, cwd=CHECKOUT, env=self.environment, stdout=subprocess.PIPE, check=True)
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def lock_waits(self) -> int:
        """How often somebody waited for a lock longer than LOCK_WAIT_MS."""
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


def compared(kind: str, sizes: list[int], times: int) -> Iterator[Comparison]:
    smallest: dict[str, Any] = {}
    for size in sizes:
        is_last = size == sizes[-1]
        with database(kind) as shop:
            told = shop.run("_analytics_shop", str(size), "--times", str(times), *(["--writes"] if is_last else []))
            oscar = shop.run("_analytics_oscar", "10") if size <= OSCARS_MOST else {}
            crowd = shop.run("_analytics_crowd") if is_last else {}
            waits = shop.lock_waits()
        print(
            json.dumps({"database": kind, "orders": size, **told, "oscar": oscar, "crowd": crowd, "lock waits": waits}),
            file=sys.stderr,
        )
        smallest = smallest or told["reads"]
        where = f"{size:,} orders, {kind}"
        for name, taken in told["reads"].items():
            if size != sizes[0]:
                for part in ("p50", "p95"):
                    yield Comparison(f"{name}, {part}: {where}", taken[part], smallest[name][part], "ms, the smallest")
        overview, sales = told["reads"]["GET /analytics, platform"], told["reads"][SALES]
        yield Comparison(f"GET /analytics: {where}", overview["p50"], told["live"]["p50"], "ms, from the orders")
        for name in ("the dashboard, platform", "the dashboard, owner"):
            yield Comparison(f"{name}: {where}", told["reads"][name]["p50"], DASHBOARD_MS, "ms, the bound")
        if oscar:
            yield Comparison(f"GET /analytics: {where}", overview["p50"], oscar["p50"], "ms, django-oscar's dashboard")
        yield Comparison(f"GET {SALES[4:]}: {where}", sales["p50"], told["live sales"]["p50"], "ms, from the orders")
        for name in ("an order", "in bulk") if is_last else ():
            writes = told["writes"]
            yield Comparison(f"{name}: {where}", writes[f"{name} with"], writes[f"{name} without"], "ms, no triggers")
        if crowd:
            yield Comparison(f"a read of 16, p99: {where}", crowd["reads"]["p99"], 1000, "ms, the bound")
            yield Comparison(f"an order of 16, p99: {where}", crowd["writes"]["p99"], 1000, "ms, the bound")
            yield Comparison(f"lock waits over {LOCK_WAIT_MS} ms: {where}", waits, 1, "one")


SALES = "GET /category-wise-product-sale, platform"


def main() -> None:
    given = arguments(__doc__ or "")
    sizes = [int(size) for size in os.environ.get("BENCH_ORDERS", "").split(",") if size] or SIZES
    kinds = os.environ.get("BENCH_DATABASES", "sqlite,postgresql").split(",")
    if find_binaries() is None:
        kinds.remove("postgresql")
        print("PostgreSQL is not installed: SQLite alone.", file=sys.stderr)
    rows = [
        row for kind in kinds for row in compared(kind, sizes[:2] if given.quick else sizes, 20 if given.quick else 60)
    ]
    publish(rows, given.json)


if __name__ == "__main__":
    main()
