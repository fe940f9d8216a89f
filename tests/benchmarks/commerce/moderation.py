"""What the moderators' pages cost with a million reports, on SQLite and PostgreSQL, beside the bounds that they are to
keep: 150 ms of server time, 20 queries. BENCH_REPORTS=10000 names another size, BENCH_DATABASES=sqlite one database.
"""

import json
import os
import sys
from collections.abc import Iterator

from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.commerce.analytics import database
from tests.postgresql import find_binaries

REPORTS = 1_000_000
MOST_MS = 150
MOST_QUERIES = 20


def compared(kind: str, reports: int, times: int) -> Iterator[Comparison]:
    with database(kind) as shop:
        told = shop.run("_moderation_pages", str(reports), "--times", str(times))
    print(json.dumps({"database": kind, **told}), file=sys.stderr)
    for name, page in told["pages"].items():
        where = f"{name}: {told['reports']:,} reports, {kind}"
        yield Comparison(where, page["p50"], MOST_MS, "ms, the bound")
        yield Comparison(f"{where}, queries", page["queries"], MOST_QUERIES, "queries, the bound")


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
