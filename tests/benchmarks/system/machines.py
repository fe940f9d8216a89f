"""The model server on several machines, as in production, and the outcomes of its clients when a process stops.

Two web servers behind nginx, two workers, PostgreSQL, Redis and a model host run in network namespaces of their own.
Clients stream, send unstreamed requests, use a WebSocket and wait for a batch. One process after the other is stopped
and restarted a second later, as systemd does. Needs root, nginx, PostgreSQL and Redis. Times are printed, not judged.
"""

import json
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks._table import arguments
from tests.benchmarks.system._machines import Machines, NamespacesUnavailable
from tests.benchmarks.system._model_server_load import ModelServerLoad
from tests.benchmarks.system._production import NAME, Production

BEFORE_S, DOWN_S = 4.0, 1.0
ANNOUNCED = "announced "


@dataclass
class FaultOutcome:
    """Outcomes of the clients while a process was stopped."""

    what: str
    counts: dict[str, Counter[str]]
    longest_outage_seconds: float
    exit_status: str = ""


def stop_and_start(
    production: Production, load: ModelServerLoad, what: str, part: str, number: signal.Signals
) -> FaultOutcome:
    load.reset()
    time.sleep(BEFORE_S)
    status = ""
    if part == "model process":
        production.model_process().kill()
    else:
        status = _stop_and_start(production, part, number)
    load.wait_until_stable()
    return FaultOutcome(what, load.counts(), load.longest_outage_seconds(), status)


def _stop_and_start(production: Production, part: str, number: signal.Signals) -> str:
    is_announced = part.startswith(ANNOUNCED)
    part = part.removeprefix(ANNOUNCED)
    process = production.machines.parts[part]
    if is_announced:
        production.set_upstream(part, is_in=False)
    status = process.end(number)
    time.sleep(DOWN_S)
    process.start()
    process.wait_until_up()
    if is_announced:
        production.set_upstream(part, is_in=True)
    return str(status)


FAULTS = [
    ("nothing", "", signal.SIGCONT),
    ("a web server, out of nginx first, SIGTERM", f"{ANNOUNCED}web-1", signal.SIGTERM),
    ("a web server, SIGTERM", "web-1", signal.SIGTERM),
    ("a web server, kill -9", "web-2", signal.SIGKILL),
    ("a worker, SIGTERM", "worker-1", signal.SIGTERM),
    ("a worker, kill -9", "worker-2", signal.SIGKILL),
    ("Redis, kill -9", "redis", signal.SIGKILL),
    ("PostgreSQL, immediate", "database", signal.SIGQUIT),
    ("a model process, kill -9", "model process", signal.SIGKILL),
    ("the model host, kill -9", "models", signal.SIGKILL),
    ("nginx, SIGTERM", "front", signal.SIGTERM),
]


def measure(production: Production, load: ModelServerLoad) -> list[FaultOutcome]:
    seen = []
    for what, part, number in FAULTS:
        if part:
            seen.append(stop_and_start(production, load, what, part, number))
        else:
            load.reset()
            time.sleep(BEFORE_S)
            load.wait_until_stable()
            seen.append(FaultOutcome(what, load.counts(), load.longest_outage_seconds()))
        print(table_row(seen[-1]), flush=True)
    return seen


def table_row(seen: FaultOutcome) -> str:
    def outcomes(kind: str) -> str:
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(seen.counts[kind].items())) or "-"

    kinds = " | ".join(outcomes(kind) for kind in ("streams", "answers", "sockets"))
    return f"| {seen.what} | {kinds} | {seen.longest_outage_seconds:.1f} s | {seen.exit_status or '-'} |"


def main() -> None:
    chosen = arguments(str(__doc__).partition("\n")[0])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # so that the child processes end as well
    with tempfile.TemporaryDirectory(prefix="stoa-machines-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's user must reach its data
        try:
            with Machines(Path(folder)).connected() as machines:
                production = Production(machines)
                batch_size = 200 if chosen.quick else 1000
                load = ModelServerLoad(production.address, NAME, production.key, batch_size=batch_size)
                with load:
                    load.submit_batch()
                    print("| stopped | streams | unstreamed | WebSockets | longest outage | exit status |")
                    print("|---|---|---|---|---|---|")
                    rows = measure(production, load)
                    batch = load.wait_for_batch()
        except NamespacesUnavailable as error:
            sys.exit(f"Not run: {error}")
    print(f"\nThe batch: {batch}")
    if chosen.json:
        outcome: list[dict[str, Any]] = [
            {
                "name": row.what,
                "value": row.longest_outage_seconds,
                "counts": {k: dict(v) for k, v in row.counts.items()},
            }
            for row in rows
        ]
        chosen.json.write_text(json.dumps({"ratios": outcome}, indent=2))


if __name__ == "__main__":
    main()
