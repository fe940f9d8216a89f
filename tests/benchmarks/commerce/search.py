"""Product search on both databases: judged quality, latency at growing sizes, index size, and the cost of writes.

Quality is the mean reciprocal rank within ten results and the share of queries with a right product among them, over
the queries of `search_measure`. Times are those of requests within one process; the encoder is a process of its own.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks._table import Comparison, arguments, publish
from tests.postgresql import LocalPostgresql, find_binaries

CHECKOUT = Path(__file__).resolve().parents[3]
SIZES = (1_000, 10_000, 100_000)
QUICK_SIZES = (1_000, 10_000)
TIMEOUT_SECONDS = 7200
MEASURED = ("full text", "vectors, a known query", "fused, a known query", "fused, encoding the query", "suggestions",
            "similar products")  # fmt: skip


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    """Yield DATABASE_URL by the name of the database; PostgreSQL only where it is installed."""
    with contextlib.ExitStack() as stack:
        urls = {"SQLite": ""}
        if binaries := find_binaries():
            server = LocalPostgresql(binaries)
            stack.callback(server.stop)
            server.start()
            urls["PostgreSQL"] = server.url
        yield urls


@contextlib.contextmanager
def encoder() -> Iterator[str]:
    """Yield the base URL of a server of all-MiniLM-L6-v2."""
    command = [sys.executable, "-m", "tests.benchmarks.commerce._search_encoder"]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def measure(database_url: str, encoder_url: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return the figures of a shop on one database, which a process of its own measures."""
    with tempfile.TemporaryDirectory() as home:
        environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        environment |= {
            "STOA_HOME": home,
            "STOA_LOG_LEVEL": "ERROR",
            "STOA_DESCRIPTIONS_BASE_URL": encoder_url,
            "STOA_SEARCH_MODEL": "all-MiniLM-L6-v2",
            "STOA_REQUESTS_PER_MINUTE": "1000000",
            "DATABASE_URL": database_url or f"sqlite:///{home}/shop.sqlite3",
            "DJANGO_SETTINGS_MODULE": "commerce.config.settings.test",
            "REDIS_URL": "",
        }
        command = [sys.executable, "-m", "tests.benchmarks.commerce._search_shop", *map(str, sizes)]
        completed = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=TIMEOUT_SECONDS,
        )
    return dict(json.loads(completed.stdout.splitlines()[-1]))


def rows(database: str, figures: dict[str, Any]) -> Iterator[Comparison]:
    """Yield the rows of one database. The baseline of each is the substring search, or a write without a worker."""
    for language, kinds in figures["quality"].items():
        for place, name in enumerate(("MRR@10", "recall@10")):
            for kind in kinds.keys() - {"substring"}:
                yield Comparison(
                    f"{database} {language} {name}, {kind}", kinds[kind][place], kinds["substring"][place], ""
                )
    print(f"{database}: {figures['texts_per_second']:.0f} texts a second are embedded")
    for size, found in figures["sizes"].items():
        latency = found["latency"]
        for kind in MEASURED:
            for part in ("p50", "p95"):
                name = f"{database} {size} products, {kind}, {part} beside substring"
                yield Comparison(name, latency[kind][part], latency["substring"][part], "ms")
        writes, crowd = found["writes"], found["crowd"]
        name = f"{database} {size} products, a change while the worker follows beside one alone"
        yield Comparison(name, writes["followed"], writes["alone"], "ms")
        print(
            f"{database}, {size} products: full text {found['bytes']['full text'] / 1e6:.1f} MB, vectors "
            f"{found['bytes']['vectors'] / 1e6:.1f} MB; a check for changes {found['check']:.0f} ms, of vectors "
            f"{found['vector check']:.0f} ms of a worker; 100 changes a second: words follow {writes['words']:.1f} s "
            f"after the last, meaning {writes['meaning']:.1f} s; 64 clients: statuses {crowd['statuses']}, "
            f"p50 {crowd['p50']:.0f} ms, p95 {crowd['p95']:.0f} ms"
        )


def main() -> None:
    given = arguments(__doc__ or "")
    sizes = QUICK_SIZES if given.quick else SIZES
    with databases() as urls, encoder() as encoder_url:
        comparisons = [
            row for database, url in urls.items() for row in rows(database, measure(url, encoder_url, sizes))
        ]
    publish(comparisons, given.json)


if __name__ == "__main__":
    main()
