"""`export_person`: export of a person's data in this project."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from shared.accounts.management.people import get_user
from shared.accounts.personal_data.export import export_person


class Command(BaseCommand):
    help = "Prints all data of a person in this project as JSON. Run it for the other project too."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("person", help="id or e-mail address of the user")

    def handle(self, *args: Any, **options: Any) -> None:
        for chunk in export_person(user=get_user(options["person"])):
            self.stdout.write(chunk, ending="")
