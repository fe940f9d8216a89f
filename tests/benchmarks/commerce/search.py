"""Product search on both databases: judged quality, latency at growing sizes, index size, and the cost of writes.

Quality is the mean reciprocal rank within ten results and the share of queries with a right product among them, over
the queries of `search_measure`, of the shop's own endpoints. Times are those of requests to a served shop; the vectors
and those of the queries are made by a model server with all-MiniLM-L6-v2. Products above the first thousand are copies
in other series, with the vectors of the originals and noise.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2

from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.commerce._search_measure import load
from tests.inference.running_server import RunningServer, running_server
from tests.postgresql import LocalPostgresql, find_binaries

CHECKOUT = Path(__file__).resolve().parents[3]
MODEL = "all-MiniLM-L6-v2"
SIZES = (1_000, 10_000, 100_000)
QUICK_SIZES = (1_000,)
TIMEOUT_SECONDS = 2400  # of a database; a third of it on a quiet machine
SERVER = {"DJANGO_SETTINGS_MODULE": "inference.config.settings.base", "STOA_REQUESTS_PER_MINUTE": "100000000"} | {
    f"STOA_{who}_{what}_PER_MINUTE": "100000000" for who in ("KEY", "USER") for what in ("REQUESTS", "TOKENS")
}


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
def model_server() -> Iterator[RunningServer]:
    """Yield a model server with the encoder loaded."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        models = Path(home) / "models"
        models.mkdir()
        with running_server(Path(home), Path(home) / "run", models, load=[MODEL], extra=SERVER) as server:
            yield server


def texts_per_second(server: RunningServer, batch: int) -> float:
    """Return how many texts of products are embedded in a second, by requests of `batch` texts in sequence."""
    products, _ = load("en")
    texts = [f"{product.name}. {product.description}" for product in products[: 2 * batch + 62]]
    with httpx2.Client(headers=server.headers(), timeout=120) as client:
        began = time.perf_counter()
        for start in range(0, len(texts), batch):
            body = {"model": MODEL, "input": texts[start : start + batch], "encoding_format": "base64"}
            client.post(f"{server.url}/v1/embeddings", json=body).raise_for_status()
    return len(texts) / (time.perf_counter() - began)


def measure(database_url: str, server: RunningServer, options: Sequence[str]) -> dict[str, Any]:
    """Return the figures of a shop on one database, which a process of its own measures."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
        environment |= {
            "STOA_HOME": home,
            "STOA_DESCRIPTIONS_BASE_URL": f"{server.url}/v1",
            "STOA_DESCRIPTIONS_API_KEY": server.keys["SUPER_ADMIN"],
            "STOA_SEARCH_MODEL": MODEL,
            "STOA_REQUESTS_PER_MINUTE": "1000000",
            "DATABASE_URL": database_url or f"sqlite:///{home}/shop.sqlite3",
            "DJANGO_SETTINGS_MODULE": "commerce.config.settings.test",
            "REDIS_URL": "",
        }
        command = [sys.executable, "-m", "tests.benchmarks.commerce._search_shop", *options]
        completed = subprocess.run(
            command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS
        )
    if completed.returncode:
        raise SystemExit("The shop of the benchmark failed.")
    return dict(json.loads(completed.stdout.splitlines()[-1]))


def print_quality(figures: dict[str, Any]) -> None:
    """Print the quality of each kind of search by language and part of the queries."""
    print(f"\n{'':46}{'':>16}  {'MRR@10':>6}  {'recall@10':>9}")
    for part, kinds in figures.items():
        for kind, (mrr, recall) in kinds.items():
            print(f"{part:46}{kind:>16}  {mrr:6.2f}  {recall:9.2f}")


def print_size(database: str, size: str, found: dict[str, Any]) -> None:
    index = found["bytes"]
    print(
        f"{database}, {size} products: full text {index['full text'] / 1e6:.1f} MB, vectors "
        f"{index['vectors'] / 1e6:.1f} MB; a look for changed words {found['check']:.0f} ms, for changed vectors "
        f"{found['vector check']:.0f} ms"
    )
    if not (crowd := found.get("crowd")):
        return
    print(
        f"{database}, {size} products, {crowd['clients']} clients: statuses {crowd['statuses']}, {crowd['semantic']} "
        f"compared by meaning, p50 {crowd['p50']:.0f} ms, p95 {crowd['p95']:.0f} ms"
    )


def print_writes(database: str, size: str, writes: dict[str, Any]) -> None:
    print(
        f"{database}, {size} products: {writes['rate']:.0f} changed a second; after the last change, words follow "
        f"within {writes['words']:.0f} s and meaning within {writes['meaning']:.0f} s"
    )


def comparisons(database: str, figures: dict[str, Any]) -> Iterator[Comparison]:
    """Yield the rows of one database. The baseline is the substring search, or a write that nothing follows."""
    for size, found in figures["sizes"].items():
        substring = found["latency"].pop("substring")
        for kind, latency in found["latency"].items():
            for part in ("p50", "p95", "processor"):
                name = f"{database}, {size} products: {kind}, {part}, beside a substring"
                yield Comparison(name, latency[part], substring[part], "ms")
    kinds = figures["writes"]["kinds"]
    for kind in ("words", "words and meaning"):
        for part in ("mean", "p50"):
            name = f"{database}: a change that the index of {kind} follows beside one that nothing follows, {part}"
            yield Comparison(name, kinds[kind][part], kinds["nothing"][part], "ms")


def main() -> None:
    given = arguments(__doc__ or "", {"--writes": "measure nothing but the cost of writes"})
    sizes = [str(size) for size in (QUICK_SIZES if given.quick else SIZES)]
    options = [*sizes, *(["--writes"] if given.writes else [])]
    rows: list[Comparison] = []
    with databases() as urls, model_server() as server:
        texts_per_second(server, 64)  # warm up
        for batch in (1, 32, 256):
            print(f"{MODEL}: {texts_per_second(server, batch):.0f} texts a second, {batch} a request", flush=True)
        for database, url in urls.items():
            figures = measure(url, server, options)
            if database == "SQLite":
                print_quality(figures["quality"])
            else:
                print(f"\nQuality on {database}:")
                print_quality(figures["quality"])
            print()
            for size, found in figures["sizes"].items():
                print_size(database, size, found)
            print_writes(database, sizes[-1], figures["writes"])
            sys.stdout.flush()
            rows += comparisons(database, figures)
    print()
    publish(rows, given.json)


if __name__ == "__main__":
    main()
