"""The moderators' pages with a million reports, on SQLite and PostgreSQL, beside their limits.

The limits are 150 ms of server time and 20 queries. BENCH_REPORTS=10000 sets another size, and BENCH_DATABASES=sqlite
one database.
"""

import json
import os
import sys
from collections.abc import Iterator

from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.commerce.analytics import database
from tests.postgresql import find_binaries

REPORTS = 1_000_000
MAX_MS = 150
MAX_QUERIES = 20


def compared(kind: str, reports: int, times: int) -> Iterator[Comparison]:
    with database(kind) as shop:
        results = shop.run("_moderation_pages", str(reports), "--times", str(times))
    print(json.dumps({"database": kind, **results}), file=sys.stderr)
    for name, page in results["pages"].items():
        where = f"{name}: {results['reports']:,} reports, {kind}"
        yield Comparison(where, page["p50"], MAX_MS, "ms, the bound")
        yield Comparison(f"{where}, queries", page["queries"], MAX_QUERIES, "queries, the bound")


def main() -> None:
    given = arguments(__doc__ or "")
    reports = int(os.environ.get("BENCH_REPORTS", "") or (REPORTS // 10 if given.quick else REPORTS))
    kinds = os.environ.get("BENCH_DATABASES", "sqlite,postgresql").split(",")
    if find_binaries() is None:
        kinds.remove("postgresql")
        print("PostgreSQL is not installed: SQLite alone.", file=sys.stderr)
    publish([row for kind in kinds for row in compared(kind, reports, 5 if given.quick else 15)], given.json)


if __name__ == "__main__":
    main()
