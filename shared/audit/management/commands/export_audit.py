"""`export_audit`: export of the audit log."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from shared.audit.export import CONTENT_TYPES, export_entries
from shared.audit.models import AuditEntry


class Command(BaseCommand):
    help = "Prints the audit log, oldest first. It contains texts of users: protect it like the database."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--format", choices=sorted(CONTENT_TYPES), default="jsonl")
        parser.add_argument("--after", type=int, default=0, help="print only entries with a larger id")

    def handle(self, *args: Any, **options: Any) -> None:
        for chunk in export_entries(AuditEntry.objects.filter(pk__gt=options["after"]), options["format"]):
            self.stdout.write(chunk.decode(), ending="")
