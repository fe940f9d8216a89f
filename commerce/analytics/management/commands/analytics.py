"""`manage_commerce.py analytics`: the figures compared, rebuilt, folded."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from commerce.analytics import reconcile, services

BUSY_S = 0.2


class Command(BaseCommand):
    help = "The figures of what the shops earn."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        commands.add_parser("reconcile", help="compare every figure with the shop's tables; 1 where one is wrong")
        commands.add_parser("rebuild", help="make all of them anew while the shop is open; goes on where it stopped")
        commands.add_parser("fold", help="add what waits in the ledger; every worker does this every few seconds")
        commands.add_parser("lag", help="how much waits in the ledger, and for how long")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['command']}")()

    def _reconcile(self) -> None:
        found = reconcile.differences()
        for difference in found:
            self.stdout.write(difference)
        if found:
            raise CommandError(f"{len(found)} figures are wrong: run `analytics rebuild`, and tell us.", returncode=1)
        self.stdout.write("Every figure is right.")

    def _rebuild(self) -> None:
        columns = TextColumn("{task.description:<10}"), BarColumn(), TimeElapsedColumn()
        with Progress(*columns, console=Console(stderr=True)) as bars:
            shown: dict[str, TaskID] = {}
            while not (done := services.rebuild_some(now=timezone.now())).is_complete:
                if done.source is None:
                    time.sleep(BUSY_S if done.is_busy else 0)
                    continue
                name = done.source.label
                if name not in shown:
                    shown[name] = bars.add_task(name, total=done.of)
                bars.update(shown[name], completed=done.up_to, total=done.of)
        self.stdout.write("Every figure is new.")

    def _fold(self) -> None:
        self.stdout.write(f"{services.fold(now=timezone.now())} entries were folded.")

    def _lag(self) -> None:
        lag = services.measure_lag(now=timezone.now())
        self.stdout.write(f"{lag.entries} entries wait, the oldest for {lag.seconds:.0f} s.")
