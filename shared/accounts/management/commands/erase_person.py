"""`erase_person`: erasure of a person from this project."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from shared.accounts.management.people import get_user
from shared.accounts.personal_data.erasure import erase_person
from shared.api.errors import ApiError


class Command(BaseCommand):
    help = (
        "Erases a person: the account, API keys, sign-ins and all personal data in this project. "
        "This cannot be undone. Run it for the shop first, then for the model server."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("person", help="id or e-mail address of the user")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user(options["person"])
        if not options["yes"] and input(f"Erase {user.email} (id {user.pk}) permanently? Type yes: ") != "yes":
            raise CommandError("Nothing was erased.")
        try:
            erase_person(user=user, actor=None, now=timezone.now())
        except ApiError as error:
            raise CommandError(error.problem.message) from None
        other = "inference" if settings.PROJECT == "commerce" else "commerce"
        self.stdout.write(
            f"User {user.pk} is erased here. For the other project, run: manage_{other}.py erase_person {user.pk}"
        )
