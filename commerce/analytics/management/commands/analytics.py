"""`manage_commerce.py analytics`: aggregate the ledger, rebuild and reconcile the rollups."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from commerce.analytics.aggregation.batches import aggregate_ledger, measure_lag
from commerce.analytics.aggregation.rebuild import rebuild_step
from commerce.analytics.aggregation.reconcile import find_differences

BUSY_WAIT_SECONDS = 0.2
RENAMED = {"fold": "aggregate"}


class Command(BaseCommand):
    help = "Maintain the rollups that analytics are read from."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        commands.add_parser("aggregate", help="aggregate the ledger now; workers do this every 10 seconds")
        commands.add_parser("lag", help="print how many ledger entries wait for aggregation, and for how long")
        commands.add_parser("reconcile", help="compare every rollup with the shop's tables; exit 1 if any is wrong")
        commands.add_parser("rebuild", help="rebuild all rollups while the shop is open; resumes when interrupted")
        for name in RENAMED:
            commands.add_parser(name)

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["command"]
        if name in RENAMED:
            raise CommandError(f"`analytics {name}` is now `analytics {RENAMED[name]}`.", returncode=2)
        getattr(self, f"_{name}")()

    def _aggregate(self) -> None:
        self.stdout.write(f"Aggregated {aggregate_ledger(now=timezone.now())} ledger entries.")

    def _lag(self) -> None:
        lag = measure_lag(now=timezone.now())
        self.stdout.write(f"{lag.entries} ledger entries wait for aggregation, the oldest for {lag.seconds:.0f} s.")

    def _reconcile(self) -> None:
        differences = find_differences()
        for difference in differences:
            self.stdout.write(difference)
        if differences:
            message = f"{len(differences)} values are wrong. Run `analytics rebuild`, and report this as a bug."
            raise CommandError(message, returncode=1)
        self.stdout.write("All rollups match the shop's tables.")

    def _rebuild(self) -> None:
        columns = TextColumn("{task.description:<10}"), BarColumn(), TimeElapsedColumn()
        with Progress(*columns, console=Console(stderr=True)) as progress_bars:
            bars: dict[str, TaskID] = {}
            while not (progress := rebuild_step(now=timezone.now())).is_complete:
                if progress.source is None:
                    time.sleep(BUSY_WAIT_SECONDS if progress.is_busy else 0)
                    continue
                name = progress.source.label
                if name not in bars:
                    bars[name] = progress_bars.add_task(name, total=progress.max_id)
                progress_bars.update(bars[name], completed=progress.last_id, total=progress.max_id)
        self.stdout.write("Rebuilt all rollups.")
