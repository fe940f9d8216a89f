"""Row X6: a soak test of both projects under a mixed load, with a fault every few minutes.

Responses are only 2xx, 4xx and 503, no accepted object is lost, and memory, threads, files and connections stay flat.
A few clients read, order, sign in, report, upload, generate, stream, use a WebSocket and submit batches. In turn, a
model process, a worker, Redis and web processes are killed, PostgreSQL is restarted and crashed, and the disk is full
for a while. Needs root, nginx, PostgreSQL and Redis.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from inference.engine import EngineError
from tests.benchmarks.system._load import SUCCESSES
from tests.benchmarks.system._machines import Machines, NamespacesUnavailable
from tests.benchmarks.system._production import NAME, SHOP_NAME
from tests.benchmarks.system._soak_load import ShopLoad, SoakModelServerLoad
from tests.benchmarks.system._soak_production import ProductionWithShop, Receiver
from tests.benchmarks.system._soak_sampler import MIB, ProcessSamples, ResourceSampler, slope

DOWN_S, FULL_S = 1.0, 15.0
STREAM_OUTCOMES = ("complete", "broken off", "ended by")  # the ends of streams and WebSockets that began


def end(part: str, number: signal.Signals) -> Callable[[ProductionWithShop], None]:
    """Return a fault: a process ends with this signal and is restarted a second later, as systemd does."""

    def fault(production: ProductionWithShop) -> None:
        process = production.machines.parts[part]
        process.end(number)
        time.sleep(DOWN_S)
        process.start()
        process.wait_until_up()

    return fault


def kill_model_process(production: ProductionWithShop) -> None:
    production.model_process().kill()


def fill_disk(production: ProductionWithShop) -> None:
    production.fill_disk()
    time.sleep(FULL_S)
    production.empty_disk()
    database = production.machines.parts["database"]
    if database.process is not None and database.process.poll() is not None:
        database.start()
        database.wait_until_up()


FAULTS: list[tuple[str, Callable[[ProductionWithShop], None]]] = [
    ("a model's process, kill -9", kill_model_process),
    ("a worker, kill -9", end("worker-2", signal.SIGKILL)),
    ("Redis, kill -9", end("redis", signal.SIGKILL)),
    ("a web process of the model server, kill -9", end("web-2", signal.SIGKILL)),
    ("PostgreSQL, restart", end("database", signal.SIGINT)),
    ("the disk is full", fill_disk),
    ("a web process of the shop, kill -9", end("shop-2", signal.SIGKILL)),
    ("the shop's worker, kill -9", end("shop-worker", signal.SIGKILL)),
    ("PostgreSQL, crash", end("database", signal.SIGQUIT)),
]


def allowed(outcome: str) -> bool:
    if outcome.isdecimal():
        return outcome.startswith(("2", "4")) or outcome == "503"
    return outcome.startswith(STREAM_OUTCOMES) or outcome in ("closed 1012", "closed 1013")


class Soak:
    """A soak test: both projects under load, with faults."""

    def __init__(self, production: ProductionWithShop, *, minutes: float, every_s: float) -> None:
        self.production, self.minutes, self.every_s = production, minutes, every_s
        self.receiver = Receiver()
        self.shoppers = ShopLoad(production.address, SHOP_NAME, production.keys)
        self.users = SoakModelServerLoad(production.address, NAME, production.key, receiver=self.receiver.url)
        self.watch = ResourceSampler(production.machines.parts, production.environment["DATABASE_URL"], self._model_pid)
        self.lost: list[str] = []

    def run(self) -> None:
        self.shoppers.raise_stock()
        with ExitStack() as running:
            running.enter_context(self.receiver.listening())
            with self.watch:
                with self.shoppers, self.users:
                    self._cause_faults()
                self.lost = [*self.shoppers.lost(), *self.users.lost(self.receiver.deliveries)]

    def _cause_faults(self) -> None:
        began = time.monotonic()
        for number in range(round(self.minutes * 60 / self.every_s)):
            self._sleep_until(began + number * self.every_s)
            what, fault = FAULTS[(number - 1) % len(FAULTS)] if number else ("nothing", None)
            before = self.counts()
            if fault is not None:
                fault(self.production)
            self._sleep_until(began + (number + 1) * self.every_s)
            print(row_of(what, self.counts() - before), flush=True)

    def counts(self) -> Counter[str]:
        return Counter(
            {
                f"{kind}, {outcome}": count
                for load in (self.shoppers, self.users)
                for kind, outcomes in load.counts().items()
                for outcome, count in outcomes.items()
            }
        )

    def tracebacks(self) -> Iterator[str]:
        """Yield the log lines of requests that got a 500."""
        for part in self.production.machines.parts.values():
            for line in part.log.read_text(errors="replace").splitlines():
                if '"request_failed"' in line:
                    yield f"{part.name}: {line[:4000]}"

    def _sleep_until(self, then: float) -> None:
        time.sleep(max(0.0, then - time.monotonic()))

    def _model_pid(self) -> int:
        try:
            return self.production.model_process().pid
        except (EngineError, AssertionError, StopIteration, psutil.Error):
            return 0


def row_of(what: str, counts: Counter[str]) -> str:
    """Return a table row with the number of successes and the other outcomes."""
    well = {outcome: count for outcome, count in counts.items() if outcome.rpartition(", ")[2] in SUCCESSES}
    others = ", ".join(f"{count} {outcome}" for outcome, count in sorted((counts - Counter(well)).items()))
    return f"| {what} | {sum(well.values())} | {others or '-'} |"


def process_row(name: str, lives: list[ProcessSamples], warm_up_s: float) -> dict[str, Any] | None:
    """Return the figures of the longest-lived process; None if none outlived the warm-up."""
    longest = max(lives, key=lambda life: life.minutes)
    samples = longest.warm(warm_up_s)
    if len(samples) < 3:
        return None
    first, last = samples[0], samples[-1]
    return {
        "name": name,
        "lives": len(lives),
        "minutes": (last.at - first.at) / 60,
        "mib": [round(sample.own_bytes / MIB) for sample in (first, last)],
        "value": slope(samples),
        "threads": [first.threads, max(sample.threads for sample in samples), last.threads],
        "files": [first.files, max(sample.files for sample in samples), last.files],
    }


def print_processes(lives: Mapping[str, list[ProcessSamples]], warm_up_s: float) -> list[dict[str, Any]]:
    print(
        f"\nThe longest-lived process of each, without its first {warm_up_s / 60:.1f} minutes (first, maximum, last):\n"
    )
    print("| process, with its children | starts | minutes | MiB first, last | MiB in 10 min | threads | files |")
    print("|---|---|---|---|---|---|---|")
    rows = [row for name in sorted(lives) if (row := process_row(name, lives[name], warm_up_s))]
    for row in rows:
        size, threads, files = (", ".join(map(str, row[name])) for name in ("mib", "threads", "files"))
        lived = f"{row['name']} | {row['lives']} | {row['minutes']:.0f}"
        print(f"| {lived} | {size} | {row['value']:+.2f} | {threads} | {files} |")
    return rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="default: 30")
    parser.add_argument("--every", type=float, default=180.0, metavar="SECONDS", help="between faults; default: 180")
    parser.add_argument("--quick", action="store_true", help="5 minutes, with a fault every 30 seconds")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.minutes, chosen.every = 5.0, 30.0
    return chosen


def report(soak: Soak, chosen: argparse.Namespace) -> list[str]:
    """Print the results and return the violations."""
    counts = soak.counts()
    rows = print_processes(soak.watch.lives, min(600.0, chosen.minutes * 60 / 3))
    held = soak.watch.connections
    print(f"\nConnections of PostgreSQL: {held[0]} first, {max(held)} maximum, {held[-1]} last.")
    accepted = {"orders": soak.shoppers.orders, "questions": soak.shoppers.questions}
    accepted |= {"pictures": soak.shoppers.pictures, "batches": soak.users.batches}
    print("Accepted: " + ", ".join(f"{len(found)} {kind}" for kind, found in accepted.items()) + ".")
    print(f"Lost: {', '.join(soak.lost) or 'nothing'}.")
    wrong = [f"{count} {outcome}" for outcome, count in counts.items() if not allowed(outcome.rpartition(", ")[2])]
    print(f"Unexpected outcomes: {', '.join(wrong) or 'none'}.")
    for line in soak.tracebacks():
        print(line)
    if chosen.json:
        chosen.json.write_text(json.dumps({"counts": counts, "lives": rows, "lost": soak.lost}, indent=2))
    return wrong + soak.lost


def main() -> None:
    chosen = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # so that the child processes end as well
    with tempfile.TemporaryDirectory(prefix="stoa-soak-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's user must reach its data
        try:
            with Machines(Path(folder)).connected() as machines:
                soak = Soak(ProductionWithShop(machines), minutes=chosen.minutes, every_s=chosen.every)
                print("| fault | 2xx and complete streams | other outcomes |\n|---|---|---|", flush=True)
                soak.run()
                wrong = report(soak, chosen)
        except NamespacesUnavailable as error:
            sys.exit(f"Not run: {error}")
    if wrong:
        sys.exit("Row X6 failed.")


if __name__ == "__main__":
    main()
