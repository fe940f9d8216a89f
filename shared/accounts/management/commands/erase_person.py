"""`erase_person`: takes somebody out of this project, for good."""

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
        "Erases a person: account, keys, sign-ins and all that is personal in this project. It cannot be undone. "
        "Run it in the shop first, then in the model server."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("person", help="their id or e-mail")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user(options["person"])
        if not options["yes"] and input(f"Erase {user.email} (id {user.pk}) for good? Type yes: ") != "yes":
            raise CommandError("Nothing was erased.")
        try:
            erase_person(user=user, actor=None, now=timezone.now())
        except ApiError as error:
            raise CommandError(error.problem.message) from None
        other = "inference" if settings.PROJECT == "commerce" else "commerce"
        self.stdout.write(
            f"User {user.pk} is erased here. Of the other project: manage_{other}.py erase_person {user.pk}"
        )
