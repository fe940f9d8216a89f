"""`manage_commerce.py seed`: create demo data."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from commerce.demo.feedback import SMALL, seed_decisions, seed_feedback
from commerce.demo.full import seed_catalog, seed_images, seed_orders
from commerce.demo.services import seed_small
from commerce.demo.small_data import MORE_PRODUCTS, PASSWORD, PRODUCTS, USERS
from shared.accounts.models import User
from shared.sqlite.statistics import refresh_statistics

MAX_ORDERS = 10_000_000


class Command(BaseCommand):
    help = (
        "Create demo data: users of every role, nine shops, two hundred products with images, two years of orders, "
        "reviews, questions and reports. Existing data stays: running it again adds what is missing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--small", action="store_true", help="Create only users, two shops and twenty products.")
        parser.add_argument(
            "--demo",
            action="store_true",
            help="Create a small shop with a past: thirty products with images, orders, reviews, reports, decisions.",
        )
        parser.add_argument("--orders", type=int, default=5000, help="Total number of orders (default: 5000).")
        parser.add_argument("--seed", type=int, default=7, help="Seed of the random data (default: 7).")
        parser.add_argument("--json", action="store_true", help="Print the users as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.SETTINGS_MODULE.endswith(".production"):
            raise CommandError("The password of the demo users is public: seed does not run with production settings.")
        if not 0 <= options["orders"] <= MAX_ORDERS:
            raise CommandError(f"--orders is {options['orders']}: set it to a number from 0 to {MAX_ORDERS}.")
        if options["small"]:
            users = seed_small(now=timezone.now())
        elif options["demo"]:
            users = self._seed_demo(seed=options["seed"])
        else:
            users = self._seed_full(seed=options["seed"], orders=options["orders"])
        refresh_statistics()
        self._print_users(users, as_json=options["json"])

    def _seed_demo(self, *, seed: int) -> list[User]:
        now = timezone.now()
        users = seed_small(products=(*PRODUCTS, *MORE_PRODUCTS), now=now)
        seed_images(seed=seed, now=now, report_progress=lambda *_: None)
        seed_orders(seed=seed, count=300, history_days=365, now=now, report_progress=lambda *_: None)
        seed_feedback(seed=seed, counts=SMALL, now=now)
        seed_decisions(moderator=users[0], colleague=users[-1], now=now)
        return users

    def _seed_full(self, *, seed: int, orders: int) -> list[User]:
        now = timezone.now()
        users = seed_catalog(seed=seed, now=now)
        with _progress_bars() as report_progress:
            seed_images(seed=seed, now=now, report_progress=report_progress)
            seed_orders(seed=seed, count=orders, now=now, report_progress=report_progress)
        seed_feedback(seed=seed, now=now)
        seed_decisions(moderator=users[0], colleague=users[-1], now=now)
        return users

    def _print_users(self, users: list[User], *, as_json: bool) -> None:
        rows = [
            {"id": user.pk, "email": demo.email, "password": PASSWORD, "role": demo.role.value}
            for demo, user in zip(USERS, users, strict=True)
        ]
        if as_json:
            self.stdout.write(json.dumps({"users": rows}))
            return
        for row in rows:
            self.stdout.write("{role:<12} {email:<24} {password}".format(**row))


@contextmanager
def _progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback that shows a progress bar for each name on standard error."""
    columns = TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def report_progress(name: str, done: int, total: int) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name, total=total)
            progress.update(bars[name], completed=done, total=total)

        yield report_progress
