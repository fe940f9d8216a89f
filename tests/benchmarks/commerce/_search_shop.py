"""The shop of the search benchmark on DATABASE_URL: fills it, searches it, and prints its figures as JSON."""

import argparse
import http.client
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode, urlsplit

import django
import numpy as np
import psutil

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")
django.setup()

from django.conf import settings  # noqa: E402 - what needs Django's apps comes after them
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.models import F, OuterRef, Subquery  # noqa: E402
from django.test import Client, override_settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from commerce.catalog import services  # noqa: E402
from commerce.catalog.models import Product, ProductType  # noqa: E402
from commerce.catalog.search import services as services_of_search  # noqa: E402
from commerce.catalog.search.indexing import update_index  # noqa: E402
from commerce.catalog.search.models import ProductVector, SearchDocument  # noqa: E402
from commerce.catalog.search.permitted import PermittedProducts  # noqa: E402
from commerce.catalog.search.vectors import semantic  # noqa: E402
from commerce.catalog.search.vectors.embedding import (  # noqa: E402
    MAX_TRANSACTION,
    missing_count,
    update_vectors,
)
from commerce.catalog.search.vectors.semantic import QueryComparison  # noqa: E402
from commerce.shops.models import Shop  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from tests.benchmarks.commerce._search_measure import LANGUAGES, load, measure, shares_words  # noqa: E402
from tests.commerce.live_server import start_server, url_of  # noqa: E402

BATCH = 2000
QUERIES = 100
SUBSTRING_QUERIES = 20  # each reads all products
CLIENTS = 64
REQUESTS = 5  # of each of the clients
WARM_UP_REQUESTS = 30  # the pool of a shop that has just started opens connections, whose first searches take longer
WRITES_PER_SECOND = 100
WRITES = 1000  # of a turn: those between two looks for changed products
WRITE_TURNS = 2
CHANGED_PRODUCTS = 5000
FOLLOWERS = {
    "nothing": {"model": "", "settings_module": "tests.benchmarks.commerce._search_unfollowed"},
    "words": {"model": ""},
    "words and meaning": {"model": settings.SEARCH_MODEL},
}
MAX_WAIT_SECONDS = 120
NOISE = 0.02  # in each number of a copied vector


def say(text: str) -> None:
    print(f"  {time.strftime('%X')} {connection.vendor}: {text}", file=sys.stderr, flush=True)


def add_judged() -> dict[str, dict[str, int]]:
    """Add the products of the measure; return the items by slug by language."""
    owner = User.objects.create(email="owner@bench.example", name="Owner", role="STORE_OWNER")
    shop = Shop.objects.create(owner=owner, name="Bench", slug="bench")
    items: dict[str, dict[str, int]] = {}
    for language in LANGUAGES:
        home = ProductType.objects.create(slug="home", language=language, name="Home")
        ProductType.objects.update(updated_at=timezone.now() - 2 * MAX_TRANSACTION)  # or its products are read again
        products, _ = load(language)
        Product.objects.bulk_create(
            Product(
                shop=shop, type=home, slug=f"p-{number}", price=1000, quantity=10, status="publish", language=language,
                name=product.name, description=product.description,
            )
            for number, product in enumerate(products)
        )  # fmt: skip
        items[language] = {f"p-{number}": product.item for number, product in enumerate(products)}
    return items


def add_copies(count: int) -> None:
    """Add the English products again in other series until there are `count`, with their index and vectors.

    Each copy has its original's text, and the original's vector with noise of its own.
    """
    originals = list(Product.objects.filter(language="en", pk__lt=_first_copy_id()).order_by("pk"))
    first = originals[0].pk
    assert [row.pk for row in originals] == list(range(first, first + len(originals)))
    with without_gin_indexes(), connection.cursor() as cursor:
        for series in range(Product.objects.filter(language="en").count() // len(originals), count // len(originals)):
            _copy_products(first, len(originals), series)
        for statement in COPY_INDEX[connection.vendor]:
            cursor.execute(
                statement.format(original=f"{first} + CAST(substr(p.slug, 3) AS integer) % {len(originals)}")
            )
    _copy_vectors(first, len(originals))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")  # as autovacuum does
    assert update_index() == 0, "the copies are indexed"
    assert missing_count(settings.SEARCH_MODEL) == 0, "and embedded"


@contextmanager
def without_gin_indexes() -> Iterator[None]:
    """Make PostgreSQL's GIN indexes anew after the block. To add a hundred thousand rows to them takes minutes."""
    indexes: list[tuple[str, str]] = []
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%USING gin%'")
            indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f"DROP INDEX {name}")
        yield
        for _, definition in indexes:
            cursor.execute(definition)


COPY_INDEX = {
    "sqlite": [
        "INSERT INTO commerce_search_text_en (rowid, language, name, description, shop) "
        "SELECT p.id, p.language, p.name, p.description, s.name FROM commerce_catalog_product p "
        "JOIN commerce_shops_shop s ON s.id = p.shop_id "
        "WHERE p.id NOT IN (SELECT product_id FROM commerce_search_searchdocument)",
        "INSERT INTO commerce_search_searchdocument (product_id, product_updated_at, shop_name, language) "
        "SELECT p.id, p.updated_at, d.shop_name, d.language FROM commerce_catalog_product p "
        "JOIN commerce_search_searchdocument d ON d.product_id = {original} "
        "WHERE p.id NOT IN (SELECT product_id FROM commerce_search_searchdocument)",
    ],
    "postgresql": [
        "INSERT INTO commerce_search_searchdocument (product_id, product_updated_at, shop_name, language, text) "
        "SELECT p.id, p.updated_at, d.shop_name, d.language, "
        "d.text || setweight(to_tsvector('english', substr(p.name, strpos(p.name, ' series '))), 'A') "
        "FROM commerce_catalog_product p JOIN commerce_search_searchdocument d ON d.product_id = {original} "
        "WHERE p.id NOT IN (SELECT product_id FROM commerce_search_searchdocument)",
    ],
}


def _first_copy_id() -> int:
    return (
        Product.objects.filter(name__contains=" series ").order_by("pk").values_list("pk", flat=True).first() or 2**62
    )


def _copy_products(first: int, count: int, series: int) -> None:
    columns = [field.column for field in Product._meta.concrete_fields if not (field.primary_key or field.generated)]
    changed = {"slug": "'p-' || (id - %s + %s)", "name": "name || ' series ' || %s"}
    values = ", ".join(changed.get(column, column) for column in columns)
    of_column = {"slug": [first, series * count], "name": [str(series)]}
    parameters = [value for column in columns for value in of_column.get(column, [])]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO commerce_catalog_product ({', '.join(columns)}) SELECT {values} "  # noqa: S608
            "FROM commerce_catalog_product WHERE id BETWEEN %s AND %s ORDER BY id",
            [*parameters, first, first + count - 1],
        )


def _copy_vectors(first: int, count: int) -> None:
    stored = ProductVector.objects.filter(product__gte=first, product__lt=first + count).order_by("product")
    matrix = np.frombuffer(b"".join(stored.values_list("vector", flat=True)), "<f2").reshape(count, -1)
    random = np.random.default_rng(7)
    copies = list(Product.objects.filter(vectors=None).order_by("pk").values_list("pk", "slug", "updated_at"))
    for start in range(0, len(copies), BATCH):
        rows = copies[start : start + BATCH]
        originals = [int(slug.removeprefix("p-")) % count for _, slug, _ in rows]
        vectors = matrix[originals] + random.normal(0, NOISE, (len(rows), matrix.shape[1]))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        ProductVector.objects.bulk_create(
            ProductVector(
                product_id=pk, model=settings.SEARCH_MODEL, language="en", dimensions=matrix.shape[1],
                vector=vector.astype("<f2").tobytes(), fingerprint="", product_updated_at=updated_at,
            )
            for (pk, _, updated_at), vector in zip(rows, vectors, strict=True)
        )  # fmt: skip


def judge(items: dict[str, dict[str, int]]) -> dict[str, dict[str, list[float]]]:
    """Measure each kind of search on the judged queries, with the shop's endpoints."""
    figures = {}
    semantic.CALL_TIMEOUT_SECONDS = 60.0  # on a busy machine too, every query is compared by meaning
    for language in LANGUAGES:
        products, queries = load(language)
        held_out = judge_held_out(language, items[language])
        results = {
            kind: {query.text: search(query.text) for query in queries}
            for kind, search in kinds_of_search(language, items[language]).items()
        }
        parts = {language: queries}
        if language == "en":
            hard = [query for query in queries if not shares_words(query, products, language)]
            parts[f"en, {len(hard)} queries without a common word"] = hard
            parts[f"en, the other {len(queries) - len(hard)}"] = [query for query in queries if query not in hard]
        for part, some in parts.items():
            measured = {kind: measure(some, found.__getitem__) for kind, found in results.items()}
            figures[part] = {kind: [quality.mrr, quality.recall] for kind, quality in measured.items()}
        figures[language]["fused, held out"] = held_out
    return figures


def kinds_of_search(language: str, items: dict[str, int]) -> dict[str, Callable[[str], Sequence[int]]]:
    """Return the searches, which return the items of the first ten products."""
    client = Client(headers={"Host": "localhost"})

    def ask(path: str, **query: object) -> list[int]:
        body = client.get(path, {"language": language, "limit": 10, **query}).json()
        assert body.get("search", {}).get("semantic") in (None, bool(settings.SEARCH_MODEL)), body
        return [items[product["slug"]] for product in body["data"]]

    def by_words(text: str) -> list[int]:
        with override_settings(SEARCH_MODEL=""):
            return ask("/api/products/search", q=text)

    def by_meaning(text: str) -> list[int]:
        ids = nearest_ids(text, language, PermittedProducts(Product.objects.public()))
        slugs = dict(Product.objects.filter(pk__in=ids[:10]).values_list("pk", "slug"))
        return [items[slugs[pk]] for pk in ids[:10]]

    return {
        "substring": lambda text: ask("/api/products", search=f"name:{text};description:{text}"),
        "full text": by_words,
        "fused": lambda text: ask("/api/products/search", q=text),
        "vectors": by_meaning,
    }


def nearest_ids(text: str, language: str, permitted: PermittedProducts) -> list[int]:
    return QueryComparison(text=text, language=language).nearest_ids(permitted) or []


def judge_held_out(language: str, items: dict[str, int]) -> list[float]:
    """Return the mean quality of fused search on each half of the queries with weights that the other half chose.

    The shop's own weights were chosen on all of them, so that its figures are a little too good.
    """
    public = Product.objects.public()
    permitted = PermittedProducts(public)
    item_of = {pk: items[slug] for pk, slug in public.filter(language=language).values_list("pk", "slug")}
    _, queries = load(language)
    lists = {
        query.text: (
            services_of_search._ids_of_name(query.text, language, permitted),
            nearest_ids(query.text, language, permitted),
            services_of_search.search_words(text=query.text, language=language, permitted=permitted).product_ids,
        )
        for query in queries
    }

    def quality(part: Sequence[Any], offset: int, weights: Sequence[float]) -> Any:
        def fused(text: str) -> list[int]:
            with patch.object(services_of_search, "RANK_OFFSET", offset):
                return [item_of[pk] for pk in services_of_search._fuse(*zip(lists[text], weights, strict=True))[:10]]

        return measure(part, fused)

    choices = [
        (offset, (name, 1.0, text))
        for offset in (5, 10, 20, 60)
        for name in (0.5, 1, 2, 4)
        for text in (0.1, 0.3, 1, 2)
    ]
    measured = []
    for chosen_by, part in ((queries[::2], queries[1::2]), (queries[1::2], queries[::2])):
        best = max(choices, key=lambda choice: sum(astuple(quality(chosen_by, *choice))))
        say(f"{language}: rank offset {best[0]}, weights of names, meaning and words {best[1]}")
        measured.append(astuple(quality(part, *best)))
    return [statistics.mean(values) for values in zip(*measured, strict=True)]


def milliseconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def percentiles(durations: Sequence[float]) -> dict[str, float]:
    return {"p50": statistics.median(durations), "p95": statistics.quantiles(durations, n=20)[-1]}


@contextmanager
def served(*, model: str, settings_module: str = settings.SETTINGS_MODULE) -> Iterator[tuple[str, psutil.Process]]:
    """Serve the shop in a process of its own, which also follows changed products; yield its URL and its process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"STOA_SEARCH_MODEL": model, "DJANGO_SETTINGS_MODULE": settings_module}
        process = start_server(environment, log := Path(folder) / "log")
        try:
            yield url_of(process, log), psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)


class Shopper:
    """A client with one connection."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        self.statuses: Counter[int] = Counter()
        self.semantic = 0
        self.durations: list[float] = []

    def get(self, path: str, **query: str) -> float:
        """Return the milliseconds of a request."""
        began = time.perf_counter()
        self._connection.request("GET", f"{path}?{urlencode(query)}")
        response = self._connection.getresponse()
        body = response.read()
        self.durations.append((time.perf_counter() - began) * 1000)
        self.statuses[response.status] += 1
        self.semantic += b'"semantic":true' in body
        return self.durations[-1]


def latencies(texts: Sequence[str], *, is_largest: bool) -> dict[str, dict[str, float]]:
    """Measure searches of one client: percentiles, and the mean processor time of the shop's process.

    All kinds are measured at the largest size only.
    """
    found = {}

    def take(name: str, process: psutil.Process, kind: Callable[[str], float], texts: Sequence[str] = texts) -> None:
        for number in range(WARM_UP_REQUESTS):
            kind(f"something to warm up {number}")
        before = process.cpu_times()
        found[name] = percentiles([kind(text) for text in texts])
        after = process.cpu_times()
        found[name]["processor"] = (sum(after[:2]) - sum(before[:2])) * 1000 / len(texts)
        say(f"{name}: {', '.join(f'{key} {value:.1f} ms' for key, value in found[name].items())}")

    with served(model="") as (url, process):
        shopper = Shopper(url)
        take("full text", process, lambda text: shopper.get("/api/products/search", q=text))
        if is_largest:
            take("full text with facets", process, lambda text: shopper.get("/api/products/search", q=text, facets="1"))
            take("suggestions", process, lambda text: shopper.get("/api/products/suggest", q=text[:6]))
        take(
            "substring",
            process,
            lambda text: shopper.get("/api/products", search=f"name:{text};description:{text}"),
            texts[:SUBSTRING_QUERIES],
        )
        assert set(shopper.statuses) == {200}, shopper.statuses
    permitted = PermittedProducts(Product.objects.public())
    take(
        "vectors, without a request",
        psutil.Process(),
        lambda text: milliseconds(lambda: nearest_ids(text, "en", permitted)),
    )
    with served(model=settings.SEARCH_MODEL) as (url, process):
        shopper = Shopper(url)
        take("fused, encoding the query", process, lambda text: shopper.get("/api/products/search", q=text))
        take("fused, a known query", process, lambda text: shopper.get("/api/products/search", q=text))
        if is_largest:
            take("similar products", process, lambda text: shopper.get(f"/api/products/p-{len(text)}/similar"))
            take("the page /shop/", process, lambda text: shopper.get("/shop/", q=text))
        assert set(shopper.statuses) == {200}, shopper.statuses
    say(f"{shopper.semantic} of {2 * (len(texts) + 1)} fused searches compared by meaning")
    return found


def crowd(texts: Sequence[str]) -> dict[str, Any]:
    """Return the statuses and latencies of many clients at once."""
    with served(model=settings.SEARCH_MODEL) as (url, _):
        Shopper(url).get("/api/products/search", q=texts[0])
        shoppers = [Shopper(url) for _ in range(CLIENTS)]

        def shop(number: int) -> None:
            for turn in range(REQUESTS):
                shoppers[number].get("/api/products/search", q=texts[(number * REQUESTS + turn) % len(texts)])

        threads = [threading.Thread(target=shop, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    durations = [taken for shopper in shoppers for taken in shopper.durations]
    found = {
        "clients": CLIENTS,
        "statuses": sum((shopper.statuses for shopper in shoppers), Counter()),
        "semantic": sum(shopper.semantic for shopper in shoppers),
        **percentiles(durations),
    }
    say(f"crowd: {found}")
    return found


def write_costs() -> dict[str, Any]:
    """Return the milliseconds of changing a product, a hundred a second, beside each kind of served shop.

    The shops take turns, so that what else the machine does weighs on all. Each begins with the changes that came since
    it last looked for some.
    """
    owner = User.objects.get(email="owner@bench.example")
    english = Product.objects.filter(language="en").order_by("pk")
    products = itertools.cycle(list(english.values_list("pk", "description")[:CHANGED_PRODUCTS]))

    def change(count: int, *, per_second: float) -> list[float]:
        taken, next_at = [], time.monotonic()
        for pk, text in itertools.islice(products, count):
            values = {"description": f"{text} Changed {time.monotonic_ns()}."}
            began = time.perf_counter()
            services.change_product(actor=owner, product_id=pk, values=values, now=timezone.now())
            taken.append((time.perf_counter() - began) * 1000)
            next_at += 1 / per_second
            time.sleep(max(0.0, next_at - time.monotonic()))
        return taken

    outdated = english.exclude(search_document__product_updated_at=F("updated_at"))
    taken: dict[str, list[float]] = {kind: [] for kind in FOLLOWERS}
    rates, words, meaning = [], [], []
    for kind, options in [*FOLLOWERS.items()] * WRITE_TURNS:
        take_changes_as_followed()
        with served(**options):
            time.sleep(2)
            change(WRITES, per_second=math.inf)
            began = time.monotonic()
            taken[kind] += change(WRITES, per_second=WRITES_PER_SECOND)
            rates.append(WRITES / (time.monotonic() - began))
            if options["model"]:
                words.append(wait_until(lambda: not outdated.exists()))
                meaning.append(words[-1] + wait_until(lambda: missing_count(settings.SEARCH_MODEL) == 0))
        say(f"a change beside {kind}: mean {statistics.mean(taken[kind]):.2f} ms")
    figures = {
        "kinds": {
            kind: {"mean": statistics.mean(each), "p50": statistics.median(each)} for kind, each in taken.items()
        },
        "rate": min(rates),
        "words": max(words),
        "meaning": max(meaning),
    }
    say(f"writes: {figures}")
    return figures


def take_changes_as_followed() -> None:
    """Have the indexes take the products as they are for those that they have, whose texts may be older."""
    changed_at = Subquery(Product.objects.filter(pk=OuterRef("product")).values("updated_at"))
    for rows in (SearchDocument.objects.all(), ProductVector.objects.all()):
        rows.exclude(product__updated_at=F("product_updated_at")).update(product_updated_at=changed_at)


def wait_until(is_done: Callable[[], bool]) -> float:
    """Return the seconds until it is done, at most MAX_WAIT_SECONDS."""
    began = time.monotonic()
    while not is_done() and time.monotonic() - began < MAX_WAIT_SECONDS:
        time.sleep(0.25)
    return time.monotonic() - began


def index_bytes(kind: str) -> int:
    """Return the size of the tables of the index: `vectors`, or of full text."""
    is_vectors = "= 'commerce_search_productvector'"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND "  # noqa: S608
                f"starts_with(relname, 'commerce_search_') AND (relname {is_vectors}) = %s",
                [kind == "vectors"],
            )
        else:
            cursor.execute(
                "SELECT sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) "  # noqa: S608
                f"WHERE substr(tbl_name, 1, 16) = 'commerce_search_' AND (tbl_name {is_vectors}) = %s",
                [kind == "vectors"],
            )
        return int(cursor.fetchone()[0] or 0)


def main(sizes: Sequence[int], *, only_writes: bool) -> None:
    call_command("migrate", verbosity=0)
    items = add_judged()
    while update_index():
        pass
    began, count = time.perf_counter(), 0
    while made := update_vectors(now=timezone.now(), max_seconds=600):
        count += made
    say(f"{count} texts embedded, {count / (time.perf_counter() - began):.0f} a second")
    figures: dict[str, Any] = {"quality": {}, "sizes": {}}
    if only_writes:
        add_copies(sizes[-1])
    else:
        figures["quality"] = judge(items)
        say("judged")
        measure_searches(sizes, figures["sizes"])
    figures["writes"] = write_costs()
    print(json.dumps(figures))


def measure_searches(sizes: Sequence[int], figures: dict[int, dict[str, Any]]) -> None:
    """Add the figures of searches at each size, to which the shop grows."""
    texts = [query.text for query in load("en")[1]]
    for size in sizes:
        add_copies(size)
        say(f"{size} products")
        figures[size] = {
            "latency": latencies(texts[:QUERIES], is_largest=size == sizes[-1]),
            "check": statistics.median(milliseconds(update_index) for _ in range(5)),
            "vector check": statistics.median(
                milliseconds(lambda: update_vectors(now=timezone.now())) for _ in range(5)
            ),
            "bytes": {kind: index_bytes(kind) for kind in ("full text", "vectors")},
        }
    figures[sizes[-1]]["crowd"] = crowd(texts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--writes", action="store_true")
    given = parser.parse_args()
    main(given.sizes, only_writes=given.writes)
