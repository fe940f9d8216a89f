"""`manage_commerce.py seed`: people, shops and products to look around with."""

import json
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from commerce.demo.data import PASSWORD, USERS
from commerce.demo.services import seed_demo


class Command(BaseCommand):
    help = "Make demo users of every role, two shops and their products. Safe to run twice: what is there stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print the users as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.SETTINGS_MODULE.endswith(".production"):
            raise CommandError(
                "The demo users' password is known to everybody: they are not made with production settings."
            )
        made = seed_demo(now=timezone.now())
        users = [
            {"id": user.pk, "email": demo.email, "password": PASSWORD, "role": demo.role.value}
            for demo, user in zip(USERS, made, strict=True)
        ]
        if options["json"]:
            self.stdout.write(json.dumps({"users": users}))
            return
        for user in users:
            self.stdout.write("{role:<12} {email:<24} {password}".format(**user))
