"""The moderators' pages over a queue of the benchmark's size, in a database of its own. Prints JSON.

Run by `moderation` in a process of its own, with DATABASE_URL and STOA_HOME set.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from random import Random
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")
import django

django.setup()

from django.core.management import call_command  # noqa: E402 - what needs Django's apps comes after them
from django.db import connection  # noqa: E402
from django.db.models import Model  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.utils import timezone  # noqa: E402

from commerce.catalog.models import Product, ProductType  # noqa: E402
from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Reporter  # noqa: E402
from commerce.reviews.models import Question, Review  # noqa: E402
from commerce.shops.models import Shop  # noqa: E402
from shared.accounts.models import User  # noqa: E402

SHOPS, PRODUCTS, REPORTERS, AUTHORS = 200, 20_000, 50_000, 50_000
REPORTS_EACH = (1, 1, 2, 3, 4, 8)
ROWS_AT_ONCE = 5000
SHOWN_SQL = 400
KINDS = ("Lamp", "Tent", "Mug", "Chair", "Rope", "Shelf", "Knife", "Towel", "Clock", "Bench")
QUEUE = "/admin/commerce_moderation/case/"
PAGES = {
    "newest": QUEUE,
    "oldest": f"{QUEUE}?order=oldest",
    "most reported": f"{QUEUE}?order=most_reported",
    "most trusted": f"{QUEUE}?order=most_trusted",
    "the 400th page": f"{QUEUE}?start=9975",
    "questions": f"{QUEUE}?kind=Question",
    "of a shop": f"{QUEUE}?shop=shop-7",
    "of a shop, most reported": f"{QUEUE}?shop=shop-7&order=most_reported",
    "in a language": f"{QUEUE}?language=fr&order=oldest",
    "in none": f"{QUEUE}?language=xx",
    "under an hour old": f"{QUEUE}?age=hour",
    "over a week old, newest": f"{QUEUE}?age=over_week",
    "hidden automatically": f"{QUEUE}?only=automatic",
    "brigaded": f"{QUEUE}?only=brigaded&order=most_trusted",
    "appealed": f"{QUEUE}?only=appealed",
    "search: an id": f"{QUEUE}?search=777",
    "search: a busy reporter": f"{QUEUE}?search=busy@bench.example",
    "search: a busy reporter, oldest": f"{QUEUE}?search=busy@bench.example&order=oldest",
    "search: an author": f"{QUEUE}?search=author7@bench.example",
    "search: nobody": f"{QUEUE}?search=nobody@bench.example",
    "search: a tenth of the products": f"{QUEUE}?search=lamp",
    "search: a tenth of the products, most reported": f"{QUEUE}?search=lamp&order=most_reported",
    "search: one product": f"{QUEUE}?search=Lamp 777",
    "search: no product": f"{QUEUE}?search=zzz",
    "statistics": f"{QUEUE}statistics/",
    "transparency report": f"{QUEUE}transparency/",
    "history of an author": f"{QUEUE}history/author/777/",
    "history of the busy reporter": f"{QUEUE}history/reporter/{{busy}}/",  # the id of its user
    "history of a shop": f"{QUEUE}history/shop/7/",
    "history of a product": f"{QUEUE}history/product/777/",
    "second look": f"{QUEUE}second-look/",
    "decisions": "/admin/commerce_moderation/decision/",
    "decisions of a moderator": "/admin/commerce_moderation/decision/?q=admin@bench.example",
    "decisions of a kind": "/admin/commerce_moderation/decision/?action__exact=appeal_kept",
    "an item": f"{QUEUE}777/change/",
}


def batched(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield some


def insert(model: type[Model], rows: Iterator[Any]) -> None:
    for some in batched(rows):
        model._default_manager.bulk_create(some)


def create_users(prefix: str, count: int) -> list[int]:
    users = (
        User(email=f"{prefix}{number}@bench.example", name=f"{prefix.title()} {number}") for number in range(count)
    )
    insert(User, users)
    return list(User.objects.filter(email__startswith=prefix).order_by("pk").values_list("pk", flat=True))


class Filling:
    """Reports of a third as many contents: some are hidden, brigaded, appealed or decided."""

    def __init__(self, reports: int) -> None:
        self.random, self.now = Random(7), timezone.now()
        self.contents = reports * len(REPORTS_EACH) // sum(REPORTS_EACH)
        self.admin = User.objects.create(email="admin@bench.example", name="Admin", role="SUPER_ADMIN")
        self.busy = User.objects.create(email="busy@bench.example", name="Busy")
        self.reporters, self.authors = create_users("reporter", REPORTERS), create_users("author", AUTHORS)
        insert(Reporter, (Reporter(user_id=pk, agreed=pk % 9, disagreed=pk % 4) for pk in self.reporters))
        self.products = self._products()

    def _products(self) -> list[Product]:
        kind = ProductType.objects.create(name="Home", slug="home")
        owner = User.objects.create(email="owner@bench.example", name="Owner", role="STORE_OWNER")
        shops = Shop.objects.bulk_create(
            Shop(owner=owner, name=f"Shop {number}", slug=f"shop-{number}") for number in range(SHOPS)
        )
        insert(
            Product,
            (
                Product(
                    shop=shops[number % SHOPS],
                    type=kind,
                    name=f"{KINDS[number % len(KINDS)]} {number // len(KINDS)}",
                    slug=f"goods-{number}",
                    price=1250,
                    language=("en", "en", "de", "fr")[number // 7 % 4],
                )
                for number in range(PRODUCTS)
            ),
        )
        return list(Product.objects.order_by("pk"))

    def fill(self) -> None:
        questions = self.contents // 5
        insert(Review, (self._review(number) for number in range(self.contents - questions)))
        insert(Question, (self._question(number) for number in range(questions)))
        for kind, model in (("Review", Review), ("Question", Question)):
            rows = model._default_manager.order_by("pk").values_list("pk", "user_id", "product_id", "created_at")
            languages = {product.pk: product for product in self.products}
            for some in batched(rows.iterator()):
                self._cases(kind, some, languages)
        self._decisions()

    def _review(self, number: int) -> Review:
        product, at = self._of(number)
        return Review(
            user_id=self.authors[number % AUTHORS], product=product, shop_id=product.shop_id, rating=number % 5 + 1,
            comment=f"It is not what I had hoped for, {number}.", abusive_reports_count=1, created_at=at, updated_at=at,
        )  # fmt: skip

    def _question(self, number: int) -> Question:
        product, at = self._of(number * 3)
        return Question(
            user_id=self.authors[number % AUTHORS], product=product, shop_id=product.shop_id,
            question=f"Where can I have it for less, {number}?", abusive_reports_count=1, created_at=at, updated_at=at,
        )  # fmt: skip

    def _of(self, number: int) -> tuple[Product, Any]:
        # Another product on each round over the authors: nobody writes two reviews of one.
        product = self.products[(number + number // AUTHORS * 13) % PRODUCTS]
        return product, self.now - timedelta(minutes=self.random.randint(20, 90_000))

    def _cases(self, kind: str, rows: Sequence[Any], products: dict[int, Product]) -> None:
        cases, reports = [], []
        for pk, author_id, product_id, written_at in rows:
            made = list(self._reports(kind, pk, written_at))
            state = ("open", "rejected", "accepted")[0 if pk % 10 else 1 + pk // 10 % 2]
            state = "appealed" if pk % 500 == 1 else state
            times = [report.created_at for report in made]
            cases.append(
                Case(
                    model_type=kind, model_id=pk, author_id=author_id, shop_id=products[product_id].shop_id,
                    language=products[product_id].language, state=state, is_waiting=state in ("open", "appealed"),
                    hiding="automatic" if pk % 53 == 0 else "", is_brigaded=pk % 97 == 0, reports_count=len(made),
                    weight=sum(report.weight for report in made), trusted_count=len(made), newest_at=max(times),
                    oldest_at=min(times), created_at=min(times), updated_at=max(times),
                )
            )  # fmt: skip
            reports += made
        Case.objects.bulk_create(cases)
        AbuseReport.objects.bulk_create(reports, batch_size=ROWS_AT_ONCE)

    def _reports(self, kind: str, pk: int, written_at: Any) -> Iterator[AbuseReport]:
        first = self.random.randrange(REPORTERS)
        count = self.random.choice(REPORTS_EACH)
        users = [self.reporters[(first + place * 17) % REPORTERS] for place in range(count)]
        if pk % 50 == 3:
            users[0] = self.busy.pk
        for user_id in users:
            at = min(written_at + timedelta(minutes=self.random.randint(1, 3000)), self.now)
            weight = self.random.randint(100, 900)
            yield AbuseReport(
                user_id=user_id, model_type=kind, model_id=pk, message="Spam.", weight=weight, created_at=at,
                updated_at=at,
            )  # fmt: skip

    def _decisions(self) -> None:
        decided = Case.objects.exclude(state="open").order_by("pk").values_list("pk", "author_id", "state")
        rows = list(decided)
        made_by = {"rejected": "rejected", "accepted": "accepted", "appealed": "accepted"}
        insert(
            Decision,
            (
                Decision(
                    case_id=pk, author_id=author_id, action=made_by[state], moderator=self.admin, reports_count=3,
                    content={"comment": "It is not what I had hoped for."},
                    created_at=(at := self.now - timedelta(minutes=self.random.randint(20, 100_000))), undo_until=at,
                )
                for pk, author_id, state in rows
            ),
        )  # fmt: skip
        decisions = dict(Decision.objects.values_list("case_id", "pk"))
        insert(
            Appeal,
            (
                Appeal(case_id=pk, decision_id=decisions[pk], author_id=author_id, message="No.", created_at=self.now)
                for pk, author_id, state in rows
                if state == "appealed"
            ),
        )


def measure(admin: User, times: int) -> dict[str, dict[str, float]]:
    """Return the milliseconds and the queries of each page."""
    browser = Client(headers={"Host": "localhost"})
    browser.force_login(admin)
    results = {}
    busy = User.objects.get(email="busy@bench.example").pk
    for name, template in PAGES.items():
        path = template.format(busy=busy)
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(path).status_code == 200, path
        asked = queries.captured_queries  # the next request forgets them
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            browser.get(path)
            taken.append((time.perf_counter() - began) * 1000)
        results[name] = {"p50": statistics.median(taken), "queries": len(asked)}
        slowest = max(asked, key=lambda query: float(query["time"]))
        print(f"{name:48} {results[name]['p50']:8.1f} ms  {len(asked):3} queries; the slowest:", file=sys.stderr)
        print(f"    {slowest['time']} s  {slowest['sql'][:SHOWN_SQL]}", file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("reports", type=int)
    parser.add_argument("--times", type=int, default=15)
    given = parser.parse_args()
    call_command("migrate", verbosity=0)
    if not User.objects.filter(email="admin@bench.example").exists():
        began = time.perf_counter()
        Filling(given.reports).fill()
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE" if connection.vendor == "sqlite" else "VACUUM ANALYZE")
        print(f"filled in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    figures: dict[str, Any] = {"reports": AbuseReport.objects.count(), "waiting": Case.objects.waiting().count()}
    figures["pages"] = measure(User.objects.get(email="admin@bench.example"), given.times)
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
