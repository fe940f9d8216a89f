"""`collect_attachments`: clears what crashes left behind."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from commerce.attachments import services


class Command(BaseCommand):
    help = (
        "Removes the files of uploads that never ended and of deleted attachments, and has missing sizes made. "
        "Every worker does this every ten minutes; run it by hand after a crash, or from a timer where no worker runs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="unfinished uploads too; only while none is running")
        parser.add_argument("--scan", action="store_true", help="compare the whole storage with the database too")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        cleared = services.collect(now=now, also_running=options["all"])
        self.stdout.write(f"{cleared} folders were left over.")
        if options["scan"]:
            found = services.scan(now=now)
            self.stdout.write(f"{len(found.unknown)} folders were nobody's; they go with the next run in an hour.")
            self.stdout.write(f"{len(found.missing)} attachments have no file: {', '.join(map(str, found.missing))}")
