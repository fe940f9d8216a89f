"""Growth with a shop: database bytes of one more of each thing, and response times at 10,000 to 1,000,000 of them.

Bytes are of an order, a report, a batch request and a usage row, on SQLite and PostgreSQL. They are created by the
services of production, with their indexes and related rows. PostgreSQL is measured after a VACUUM, as autovacuum leaves
it.

Times are of every list and every write of the shop's API on PostgreSQL, in shops of as many products, orders, reports
and reviews, with the pages of tables and indexes that the database reads. `--times` measures only these, and
BENCH_SIZES=10000,100000 other sizes.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.commerce.analytics import database
from tests.benchmarks.system._machines import plain_environment
from tests.postgresql import LocalPostgresql, find_binaries

CHECKOUT = Path(__file__).resolve().parents[3]
PROJECTS = {
    "commerce": ("_growth_shop", ["migrate -v0", "seed --small"]),
    "inference": ("_growth_models", ["migrate -v0"]),
}
SIZES = [10_000, 100_000, 1_000_000]
MAX_GROWTH = 1.3  # of the time of a request, from one size to the next
DOUBTLESS_GROWTH = 2.0
DEPTH = 0.9  # of the smallest shop: where the deep page is
ROUNDS, TIMES = 5, 3  # the shops are measured in turns, so that a slow moment affects all


def run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def grow(database_url: str, home: Path, count: int) -> dict[str, float]:
    """Return the bytes of one object of each kind."""
    grown: dict[str, float] = {}
    for project, (module, prepare) in PROJECTS.items():
        settings = {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.base", "STOA_LOG_LEVEL": "ERROR"}
        environment = plain_environment() | settings | {"STOA_HOME": str(home), "DATABASE_URL": database_url}
        for command in prepare:
            run(environment, f"manage_{project}.py", *command.split())
        grown |= json.loads(run(environment, "-m", f"tests.benchmarks.growth.{module}", str(count)).splitlines()[-1])
    return grown


def compare_bytes(binaries: Path, count: int) -> list[Comparison]:
    with tempfile.TemporaryDirectory(prefix="stoa-growth-") as home:
        on_sqlite = grow(f"sqlite:///{home}/stoa.sqlite3", Path(home), count)
    server = LocalPostgresql(binaries)
    try:
        server.start()
        with tempfile.TemporaryDirectory(prefix="stoa-growth-") as home:
            on_postgresql = grow(server.url, Path(home), count)
    finally:
        server.stop()
    return [Comparison(name, on_postgresql[name], on_sqlite[name], "bytes, SQLite's") for name in on_sqlite]


@dataclass
class Cost:
    """The milliseconds of one request in each shop, and the pages that the database read for it."""

    name: str
    times: list[list[float]]
    pages: list[int] = field(default_factory=list)

    @property
    def milliseconds(self) -> list[float]:
        return [statistics.median(times) for times in self.times]

    @property
    def growth(self) -> float:
        """Return how many times as long it takes in the next shop, at most."""
        return max(larger / smaller for smaller, larger in pairwise(self.milliseconds))


@contextlib.contextmanager
def grown_shop(size: int, depth: int) -> Iterator["subprocess.Popen[str]"]:
    """Fill a database of its own, and yield the process that measures it."""
    with database("postgresql") as shop:
        command = [sys.executable, "-m", "tests.benchmarks.growth._growth_requests", str(size), str(depth)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=CHECKOUT, env=shop.environment, **pipes) as process:
            print(f"{size:,} of each: {read(process)['seconds']:.0f} s", file=sys.stderr, flush=True)
            yield process


def read(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout
    line = process.stdout.readline()
    assert line, "the process of the shop ended"
    result: dict[str, Any] = json.loads(line)
    return result


def measure(shops: Sequence["subprocess.Popen[str]"], rounds: int, costs: dict[str, Cost], only: list[str]) -> None:
    """Add to the costs of these requests, or of all."""
    for _ in range(rounds):
        for place, process in enumerate(shops):
            assert process.stdin
            print(json.dumps({"times": TIMES, "only": only}), file=process.stdin, flush=True)
            for name, result in read(process).items():
                cost = costs.setdefault(name, Cost(name, [[] for _ in shops], [0] * len(shops)))
                cost.times[place] += result["ms"]
                cost.pages[place] = result["pages"]


def measure_requests(sizes: Sequence[int], rounds: int) -> list[Cost]:
    costs: dict[str, Cost] = {}
    with contextlib.ExitStack() as stack:
        shops = [stack.enter_context(grown_shop(size, int(sizes[0] * DEPTH))) for size in sizes]
        measure(shops, rounds, costs, [])
        for name in [name for name, cost in costs.items() if not all(cost.times)]:
            print(f"Refused in a shop, which says so above: {name}")
            del costs[name]
        if doubtful := [name for name, cost in costs.items() if MAX_GROWTH < cost.growth < DOUBTLESS_GROWTH]:
            measure(shops, 3 * rounds, costs, doubtful)  # a few milliseconds more may be the machine's
    return list(costs.values())


def print_requests(costs: Sequence[Cost], sizes: Sequence[int]) -> None:
    """Print the table of all requests."""
    width = max(len(cost.name) for cost in costs)
    heads = [f"{size:,}" for size in sizes]
    print(f"\n{'p50 in ms, pages':{width}}" + "".join(f"{head:>10}{'':>9}" for head in heads) + "    growth")
    for cost in costs:
        cells = "".join(f"{ms:10.1f}{pages:9,}" for ms, pages in zip(cost.milliseconds, cost.pages, strict=True))
        print(f"{cost.name:{width}}{cells}{cost.growth:10.2f}{' !' if cost.growth > MAX_GROWTH else ''}")


def compare_requests(costs: Sequence[Cost]) -> list[Comparison]:
    """Return the form of each route that grows most."""
    worst: dict[str, Cost] = {}
    for cost in sorted(costs, key=lambda cost: cost.growth):
        worst[cost.name.partition(",")[0]] = cost
    return [Comparison(cost.name, cost.growth, MAX_GROWTH, "times as long, the limit") for cost in worst.values()]


def main() -> None:
    given = arguments(str(__doc__).partition("\n")[0], {"--times": "measure only response times"})
    binaries = find_binaries()
    if binaries is None:
        sys.exit("Not run: PostgreSQL is not installed here.")
    rows = [] if given.times else compare_bytes(binaries, 600 if given.quick else 6000)
    sizes = [int(size) for size in os.environ.get("BENCH_SIZES", "").split(",") if size] or SIZES
    if given.quick:
        sizes = [size // 10 for size in sizes]
    costs = measure_requests(sizes, 2 if given.quick else ROUNDS)
    print_requests(costs, sizes)
    publish(rows + compare_requests(costs), given.json)


if __name__ == "__main__":
    main()
