"""Row X6: a mixed load over both projects, and a fault every few minutes. Only 2xx, 4xx and 503 are answered, nothing
that was accepted is lost, and memory, threads, files and connections stay flat.

Few users with pauses read, order, sign in, report, upload, generate, stream, hold a socket and give in batches. One
after the other, a model's process, a worker, Redis and web processes are killed, PostgreSQL is restarted and crashed,
and the disk is full for a while. Needs root, nginx, PostgreSQL and Redis.
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
from tests.benchmarks.system._machines import Machines, NoNamespaces
from tests.benchmarks.system._people import GOOD
from tests.benchmarks.system._production import NAME, SHOP_NAME
from tests.benchmarks.system._soak_people import ModelUsers, Shoppers
from tests.benchmarks.system._soak_production import Receiver, WholeProduction
from tests.benchmarks.system._soak_watch import MIB, Life, Watch, slope

DOWN_S, FULL_S = 1.0, 15.0
BEGUN = ("whole", "cut", "ended by")  # how streams and sockets end that were 200


def end(part: str, how: signal.Signals) -> Callable[[WholeProduction], None]:
    """A part ends so and is started again a second later, as systemd does."""

    def fault(production: WholeProduction) -> None:
        found = production.machines.parts[part]
        found.end(how)
        time.sleep(DOWN_S)
        found.start()
        found.wait_until_up()

    return fault


def kill_model_process(production: WholeProduction) -> None:
    production.model_process().kill()


def fill_disk(production: WholeProduction) -> None:
    production.fill_disk()
    time.sleep(FULL_S)
    production.empty_disk()
    database = production.machines.parts["database"]
    if database.process is not None and database.process.poll() is not None:
        database.start()
        database.wait_until_up()


FAULTS: list[tuple[str, Callable[[WholeProduction], None]]] = [
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
    return outcome.startswith(BEGUN) or outcome in ("closed 1012", "closed 1013")


class Soak:
    """Both projects under load, with faults."""

    def __init__(self, production: WholeProduction, *, minutes: float, every_s: float) -> None:
        self.production, self.minutes, self.every_s = production, minutes, every_s
        self.receiver = Receiver()
        self.shoppers = Shoppers(production.address, SHOP_NAME, production.keys)
        self.users = ModelUsers(production.address, NAME, production.key, receiver=self.receiver.url)
        self.watch = Watch(production.machines.parts, production.environment["DATABASE_URL"], self._model_pid)
        self.lost: list[str] = []

    def run(self) -> None:
        self.shoppers.stock_up()
        with ExitStack() as running:
            running.enter_context(self.receiver.listening())
            with self.watch:
                with self.shoppers, self.users:
                    self._have_faults()
                self.lost = [*self.shoppers.lost(), *self.users.lost(self.receiver.told)]

    def _have_faults(self) -> None:
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
                for people in (self.shoppers, self.users)
                for kind, outcomes in people.counts().items()
                for outcome, count in outcomes.items()
            }
        )

    def tracebacks(self) -> Iterator[str]:
        """The lines of the logs about requests that were answered with 500."""
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
    """How often it went well, and what else there was."""
    well = {outcome: count for outcome, count in counts.items() if outcome.rpartition(", ")[2] in GOOD}
    besides = ", ".join(f"{count} {outcome}" for outcome, count in sorted((counts - Counter(well)).items()))
    return f"| {what} | {sum(well.values())} | {besides or '-'} |"


def life_row(name: str, lives: list[Life], warm_up_s: float) -> dict[str, Any] | None:
    """Of the life that was longest; None where none outlived its warming up."""
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


def tell_lives(lives: Mapping[str, list[Life]], warm_up_s: float) -> list[dict[str, Any]]:
    print(f"\nOf the longest life of each, without its first {warm_up_s / 60:.1f} minutes (first, most, last):\n")
    print("| process, with its children | lives | minutes | MiB first, last | MiB in 10 min | threads | files |")
    print("|---|---|---|---|---|---|---|")
    rows = [row for name in sorted(lives) if (row := life_row(name, lives[name], warm_up_s))]
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
    parser.add_argument("--json", type=Path, help="also write the outcome there")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.minutes, chosen.every = 5.0, 30.0
    return chosen


def tell(soak: Soak, chosen: argparse.Namespace) -> list[str]:
    """Prints what came of it; answers what should not have been."""
    counts = soak.counts()
    rows = tell_lives(soak.watch.lives, min(600.0, chosen.minutes * 60 / 3))
    held = soak.watch.connections
    print(f"\nConnections of PostgreSQL: {held[0]} first, {max(held)} most, {held[-1]} last.")
    accepted = {"orders": soak.shoppers.orders, "questions": soak.shoppers.questions}
    accepted |= {"pictures": soak.shoppers.pictures, "batches": soak.users.batches}
    print("Accepted: " + ", ".join(f"{len(found)} {kind}" for kind, found in accepted.items()) + ".")
    print(f"Lost: {', '.join(soak.lost) or 'nothing'}.")
    wrong = [f"{count} {outcome}" for outcome, count in counts.items() if not allowed(outcome.rpartition(", ")[2])]
    print(f"Answers that should not be: {', '.join(wrong) or 'none'}.")
    for line in soak.tracebacks():
        print(line)
    if chosen.json:
        chosen.json.write_text(json.dumps({"counts": counts, "lives": rows, "lost": soak.lost}, indent=2))
    return wrong + soak.lost


def main() -> None:
    chosen = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped."))  # what was started ends with it
    with tempfile.TemporaryDirectory(prefix="stoa-soak-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL's user walks through it
        try:
            with Machines(Path(folder)).connected() as machines:
                soak = Soak(WholeProduction(machines), minutes=chosen.minutes, every_s=chosen.every)
                print("| fault | 2xx and whole streams | besides |\n|---|---|---|", flush=True)
                soak.run()
                wrong = tell(soak, chosen)
        except NoNamespaces as error:
            sys.exit(f"Not run: {error}")
    if wrong:
        sys.exit("Row X6 does not hold.")


if __name__ == "__main__":
    main()
