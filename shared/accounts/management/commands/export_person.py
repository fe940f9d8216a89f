"""`export_person`: what this project keeps about somebody, for them."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from shared.accounts.management.people import get_user
from shared.accounts.personal_data.export import export_person


class Command(BaseCommand):
    help = "Prints all that this project keeps about a person, as JSON. The other project has its own."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("person", help="their id or e-mail")

    def handle(self, *args: Any, **options: Any) -> None:
        for piece in export_person(user=get_user(options["person"])):
            self.stdout.write(piece, ending="")
