"""`turn_off_second_factor`: let a user in who has lost the authenticator app and the recovery codes."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from shared.accounts.management.people import get_user
from shared.accounts.sign_ins.second_factor import remove_second_factor


class Command(BaseCommand):
    help = "Turn off the second factor of a user, who can then sign in with the password alone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="id or e-mail address")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user(options["user"])
        if not remove_second_factor(user=user, actor=None, now=timezone.now()):
            raise CommandError(f"{user.email} has no second factor.")
        self.stdout.write(f"The second factor of {user.email} is off.")
