"""Database bytes of an order, a report, a batch request and a usage row, on SQLite and PostgreSQL.

They are created by the services of production, with their indexes and related rows. PostgreSQL is
measured after a VACUUM, as autovacuum leaves it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.system._machines import plain_environment
from tests.postgresql import LocalPostgresql, find_binaries

CHECKOUT = Path(__file__).resolve().parents[3]
PROJECTS = {
    "commerce": ("_growth_shop", ["migrate -v0", "seed --small"]),
    "inference": ("_growth_models", ["migrate -v0"]),
}


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
        grown |= json.loads(run(environment, "-m", f"tests.benchmarks.system.{module}", str(count)).splitlines()[-1])
    return grown


def main() -> None:
    given = arguments(str(__doc__).partition("\n")[0])
    count = 600 if given.quick else 6000
    binaries = find_binaries()
    if binaries is None:
        sys.exit("Not run: PostgreSQL is not installed here.")
    with tempfile.TemporaryDirectory(prefix="stoa-growth-") as home:
        on_sqlite = grow(f"sqlite:///{home}/stoa.sqlite3", Path(home), count)
    server = LocalPostgresql(binaries)
    try:
        server.start()
        with tempfile.TemporaryDirectory(prefix="stoa-growth-") as home:
            on_postgresql = grow(server.url, Path(home), count)
    finally:
        server.stop()
    print("measured: PostgreSQL, baseline: SQLite")
    publish([Comparison(name, on_postgresql[name], on_sqlite[name], "bytes") for name in on_sqlite], given.json)


if __name__ == "__main__":
    main()
