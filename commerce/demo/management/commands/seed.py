"""`manage_commerce.py seed`: a shop to look around in."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from commerce.demo.data import PASSWORD, USERS
from commerce.demo.services import seed_small
from commerce.demo.voices import seed_voices
from commerce.demo.whole import seed_goods, seed_orders, seed_pictures
from shared.accounts.models import User
from shared.sqlite.statistics import refresh_statistics

MOST_ORDERS = 10_000_000


class Command(BaseCommand):
    help = (
        "Make a shop to look around in: users of every role, nine shops, two hundred products with pictures, two years "
        "of orders, reviews, questions and reports. Safe to run again: what is there stays, what is missing is added."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--small", action="store_true", help="Only the users, two shops and twenty products.")
        parser.add_argument("--orders", type=int, default=5000, help="How many orders there are to be (default 5000).")
        parser.add_argument("--seed", type=int, default=7, help="Another number draws another shop (default 7).")
        parser.add_argument("--json", action="store_true", help="Print the users as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.SETTINGS_MODULE.endswith(".production"):
            raise CommandError(
                "The demo users' password is known to everybody: they are not made with production settings."
            )
        if not 0 <= options["orders"] <= MOST_ORDERS:
            raise CommandError(f"--orders takes from 0 to {MOST_ORDERS}.")
        if options["small"]:
            made = seed_small(now=timezone.now())
        else:
            made = self._make_whole(seed=options["seed"], orders=options["orders"])
        refresh_statistics()
        self._tell_users(made, as_json=options["json"])

    def _make_whole(self, *, seed: int, orders: int) -> list[User]:
        now = timezone.now()
        made = seed_goods(seed=seed, now=now)
        with _bars() as tell:
            seed_pictures(seed=seed, now=now, tell=tell)
            seed_orders(seed=seed, count=orders, now=now, tell=tell)
        seed_voices(seed=seed, now=now)
        return made

    def _tell_users(self, made: list[User], *, as_json: bool) -> None:
        users = [
            {"id": user.pk, "email": demo.email, "password": PASSWORD, "role": demo.role.value}
            for demo, user in zip(USERS, made, strict=True)
        ]
        if as_json:
            self.stdout.write(json.dumps({"users": users}))
            return
        for user in users:
            self.stdout.write("{role:<12} {email:<24} {password}".format(**user))


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar for each thing that is told of, on standard error."""
    columns = TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def tell(what: str, done: int, of: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=of)
            progress.update(bars[what], completed=done, total=of)

        yield tell
