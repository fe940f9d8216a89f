"""The model server on many machines, as in production, and what its users see when one of its parts stops: two web
servers behind nginx, two workers, PostgreSQL, Redis and a model host, each in a network namespace of its own.

Users stream, ask for whole answers, hold a WebSocket and wait for a batch; then one part after the other is stopped,
and started again a second later, as systemd does. Needs root, nginx, PostgreSQL and Redis. Times are printed, none is
judged.
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
from tests.benchmarks.system._crowd import Crowd
from tests.benchmarks.system._machines import Machines, NoNamespaces
from tests.benchmarks.system._production import NAME, Production

BEFORE_S, DOWN_S = 4.0, 1.0
ANNOUNCED = "announced "


@dataclass
class Seen:
    """What users saw while a part was stopped."""

    what: str
    counts: dict[str, Counter[str]]
    worst_gap_s: float
    exit_status: str = ""


def stop_and_start(production: Production, crowd: Crowd, what: str, part: str, how: signal.Signals) -> Seen:
    crowd.begin_anew()
    time.sleep(BEFORE_S)
    status = ""
    if part == "model process":
        production.model_process().kill()
    else:
        status = _stop_and_start(production, part, how)
    crowd.wait_until_well()
    return Seen(what, crowd.counts(), crowd.worst_gap_s(), status)


def _stop_and_start(production: Production, part: str, how: signal.Signals) -> str:
    is_announced = part.startswith(ANNOUNCED)
    part = part.removeprefix(ANNOUNCED)
    found = production.machines.parts[part]
    if is_announced:
        production.let_in(part, wanted=False)
    status = found.end(how)
    time.sleep(DOWN_S)
    found.start()
    found.wait_until_up()
    if is_announced:
        production.let_in(part, wanted=True)
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


def measure(production: Production, crowd: Crowd) -> list[Seen]:
    seen = []
    for what, part, how in FAULTS:
        if part:
            seen.append(stop_and_start(production, crowd, what, part, how))
        else:
            crowd.begin_anew()
            time.sleep(BEFORE_S)
            crowd.wait_until_well()
            seen.append(Seen(what, crowd.counts(), crowd.worst_gap_s()))
        print(told(seen[-1]), flush=True)
    return seen


def told(seen: Seen) -> str:
    def of(kind: str) -> str:
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(seen.counts[kind].items())) or "-"

    kinds = " | ".join(of(kind) for kind in ("streams", "answers", "sockets"))
    return f"| {seen.what} | {kinds} | {seen.worst_gap_s:.1f} s | {seen.exit_status or '-'} |"


def main() -> None:
    chosen = arguments(str(__doc__).partition("\n")[0])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # what was started ends with it
    with tempfile.TemporaryDirectory(prefix="stoa-machines-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's user walks through it
        try:
            with Machines(Path(folder)).connected() as machines:
                production = Production(machines)
                batch_size = 200 if chosen.quick else 1000
                crowd = Crowd(production.address, NAME, production.key, batch_size=batch_size)
                with crowd:
                    crowd.wait_until_served()
                    print("| stopped | streams | whole answers | sockets | longest without one | its exit |")
                    print("|---|---|---|---|---|---|")
                    rows = measure(production, crowd)
                    batch = crowd.finish_batch()
        except NoNamespaces as error:
            sys.exit(f"Not run: {error}")
    print(f"\nThe batch: {batch}")
    if chosen.json:
        outcome: list[dict[str, Any]] = [
            {"name": row.what, "value": row.worst_gap_s, "counts": {k: dict(v) for k, v in row.counts.items()}}
            for row in rows
        ]
        chosen.json.write_text(json.dumps({"ratios": outcome}, indent=2))


if __name__ == "__main__":
    main()
