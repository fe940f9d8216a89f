"""Every command of docs/operator/cluster.md, from one machine to a pool, a replica of PostgreSQL and PgBouncer.

Each machine is a network namespace with an address and folders of its own; a client that knows the first one alone asks
for a chat, a list of products and a batch after each step. Needs root on Linux, nginx, PostgreSQL, PgBouncer and Redis.
"""

import json
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks._table import arguments
from tests.benchmarks.system._machines import NamespacesUnavailable
from tests.machines.cluster_page import (
    CLIENT,
    ONE_MACHINE,
    POOL,
    REPLICA,
    TWO_MACHINES,
    Cluster,
    commands,
    running_cluster,
    stoa_run,
)

DEMO_DATA = """
(
  set -a
  . /etc/stoa/stoa.env
  export STOA_HOME=/var/lib/stoa DJANGO_SETTINGS_MODULE=commerce.config.settings.dev
  .venv/bin/python manage_commerce.py seed --small > /dev/null
)
"""


def install(cluster: Cluster) -> None:
    """Leave the first machine as the install page does, with demo data and a client's key."""
    password, first = secrets.token_hex(12), cluster.machines["first"]
    cluster.install_first(database_url=f"postgres://stoa:{password}@127.0.0.1:5432/stoa")
    cluster.install_postgresql("first")
    first.run(f"""
        runuser -u postgres -- psql -qc "CREATE ROLE stoa LOGIN PASSWORD '{password}'"
        runuser -u postgres -- createdb stoa --owner stoa
    """)
    first.run(stoa_run()[1])
    first.run(DEMO_DATA)
    key = first.run("stoa_run inference keys create --user admin@stoa.example client 2> /dev/null").strip()
    cluster.connect_client(key)
    cluster.start_first()
    first.run("until curl -sf http://127.0.0.1:8000/readyz; do sleep 1; done")


PREPARE = {
    TWO_MACHINES: lambda cluster: (cluster.install("second"), cluster.share_files()),
    POOL: lambda cluster: cluster.install("third"),
    REPLICA: lambda cluster: cluster.install_postgresql("fourth"),
}


def main() -> None:
    chosen = arguments(str(__doc__).partition("\n")[0])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))
    page = commands()
    client = [one for one in page if one.step == ONE_MACHINE and one.machine == CLIENT and one.code]
    seconds: dict[int, float] = {}
    with tempfile.TemporaryDirectory(prefix="stoa-cluster-") as folder:
        try:
            with running_cluster(Path(folder), "first", "second", "third", "fourth") as cluster:
                install(cluster)
                for step in sorted({one.step for one in page}):
                    PREPARE.get(step, lambda cluster: None)(cluster)
                    began = time.monotonic()
                    for command in page:
                        if command.step == step:
                            first_line = (command.code or "the commands of step 1").splitlines()[0]
                            print(f"{step}. {command.machine}: {first_line}", flush=True)
                            cluster.run(command, client)
                    seconds[step] = time.monotonic() - began
        except NamespacesUnavailable as error:
            sys.exit(f"NOT RUN: {error}")
    print("\n| step | commands | seconds |\n|---|---|---|")
    for step, taken in seconds.items():
        print(f"| {step} | {sum(one.step == step for one in page)} | {taken:.0f} |")
    if chosen.json:
        rows = [{"name": f"step {step}", "value": taken} for step, taken in seconds.items()]
        chosen.json.write_text(json.dumps({"ratios": rows}, indent=2))


if __name__ == "__main__":
    main()
