"""`settings`: the table of environment variables, and how it gets into the project's README."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from shared.variables import table

REPOSITORY = Path(__file__).resolve().parents[4]
BEGIN, END = "<!-- made by `settings --write` of shared/variables.py -->\n", "<!-- end of settings -->\n"


class Command(BaseCommand):
    help = "Prints every environment variable of this project, as a Markdown table."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--write", action="store_true", help="put it into the project's README.md instead")

    def handle(self, *args: Any, **options: Any) -> None:
        told = table(settings.PROJECT)
        if not options["write"]:
            self.stdout.write(told)
            return
        page = REPOSITORY / settings.PROJECT / "README.md"
        before, _, rest = page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n{told}\n\n{END}{after}")
