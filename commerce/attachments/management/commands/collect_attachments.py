"""Management command `collect_attachments`: delete files that crashes left behind."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from commerce.attachments import services


class Command(BaseCommand):
    help = (
        "Deletes the files of unfinished uploads and of deleted attachments, and makes missing smaller copies of "
        "images. Every worker does this every ten minutes. Run it after a crash, or from a timer where no worker runs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--all", action="store_true", help="include unfinished uploads; use it only while no upload is running"
        )
        parser.add_argument("--scan", action="store_true", help="also compare the whole storage with the database")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        count = services.collect_garbage(now=now, include_running=options["all"])
        self.stdout.write(f"Folders due for deletion: {count}")
        if options["scan"]:
            unknown, missing = services.compare_storage(now=now)
            self.stdout.write(f"Unknown folders, to be deleted by the next run in an hour: {len(unknown)}")
            self.stdout.write(f"Attachments without a file: {len(missing)} (ids: {', '.join(map(str, missing))})")
