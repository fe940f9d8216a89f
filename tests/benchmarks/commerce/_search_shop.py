"""The shop of the search benchmark on DATABASE_URL: fills it, searches it, and prints its figures as JSON."""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import django
import httpx2
import numpy as np

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")
BATCH = 2000
WRITES = 150
WRITE_SECONDS = 0.01  # a hundred changes a second
QUERIES = 100
CLIENTS = 64
REQUESTS = 5  # of each of the clients
NOISE = 0.02  # in each number of a copied vector


def fill(count: int) -> None:
    """Add products until there are `count`: those of the measure, then the same ones in other series."""
    from commerce.catalog.models import Product, ProductType
    from commerce.shops.models import Shop
    from shared.accounts.models import User
    from tests.benchmarks.commerce._search_measure import load

    owner, _ = User.objects.get_or_create(
        email="owner@bench.example", defaults={"name": "Owner", "role": "STORE_OWNER"}
    )
    shop, _ = Shop.objects.get_or_create(slug="bench", defaults={"name": "Bench", "owner": owner})
    home, _ = ProductType.objects.get_or_create(slug="home", language="en", defaults={"name": "Home"})
    judged, _ = load("en")
    numbers = range(Product.objects.count(), count)
    for start in range(0, len(numbers), BATCH):
        Product.objects.bulk_create(
            Product(
                shop=shop, type=home, slug=f"p-{number}", price=1000, quantity=10, status="publish",
                name=f"{judged[number % len(judged)].name}{f' series {number}' if number >= len(judged) else ''}",
                description=judged[number % len(judged)].description,
            )
            for number in numbers[start : start + BATCH]
        )  # fmt: skip


def index() -> float:
    """Index and embed all products; return the number of texts a second. Copies get the vectors of their originals."""
    from django.conf import settings
    from django.utils import timezone

    from commerce.catalog.models import Product
    from commerce.catalog.search.indexing import update_index
    from commerce.catalog.search.models import ProductVector
    from commerce.catalog.search.vectors.embedding import fingerprint_of, text_of, update_vectors

    while update_index():
        pass
    rows = Product.objects.filter(vectors=None).order_by("pk").select_related("type")
    originals = np.frombuffer(
        b"".join(ProductVector.objects.order_by("product").values_list("vector", flat=True)[:1000]), "<f2"
    )
    if not len(originals):
        began, count = time.perf_counter(), 0
        while made := update_vectors(now=timezone.now(), max_seconds=600):
            count += made
        return count / (time.perf_counter() - began)
    matrix, random = originals.reshape(1000, -1).astype(np.float32), np.random.default_rng(7)
    while products := list(rows.prefetch_related("categories", "tags")[:BATCH]):
        vectors = []
        for product in products:
            number = int(product.slug.removeprefix("p-")) % len(matrix)
            vector = matrix[number] + random.normal(0, NOISE, matrix.shape[1])
            vectors.append((vector / np.linalg.norm(vector)).astype("<f2").tobytes())
        ProductVector.objects.bulk_create(
            ProductVector(
                product=product, model=settings.SEARCH_MODEL, language="en", dimensions=matrix.shape[1], vector=vector,
                fingerprint=fingerprint_of(text_of(product)), product_updated_at=product.updated_at,
            )
            for product, vector in zip(products, vectors, strict=True)
        )  # fmt: skip
    return 0.0


def milliseconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def percentiles(durations: Sequence[float]) -> dict[str, float]:
    return {"p50": statistics.median(durations), "p95": statistics.quantiles(durations, n=20)[-1]}


@contextmanager
def setting(name: str, value: Any) -> Iterator[None]:
    from django.test import override_settings

    with override_settings(**{name: value}):
        yield


def latencies(texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Measure searches at one client: requests within one process, without a network but to the encoder."""
    from django.conf import settings
    from django.test import Client

    from commerce.catalog.models import Product
    from commerce.catalog.search.vectors import semantic

    client, model = Client(headers={"Host": "localhost"}), settings.SEARCH_MODEL

    def ask(path: str, **query: str) -> float:
        return milliseconds(lambda: client.get(path, query))

    def by_words(text: str) -> float:
        with setting("SEARCH_MODEL", ""):
            return ask("/api/products/search", q=text)

    def by_meaning(text: str) -> float:
        products = Product.objects.public()
        return milliseconds(lambda: semantic.nearest_ids(text=text, language="en", products=products))

    kinds = {
        "full text": by_words,
        "fused, encoding the query": lambda text: ask("/api/products/search", q=text),
        "fused, a known query": lambda text: ask("/api/products/search", q=text),
        "vectors, a known query": by_meaning,
        "suggestions": lambda text: ask("/api/products/suggest", q=text[:6]),
        "similar products": lambda text: ask(f"/api/products/p-{len(text)}/similar"),
        "substring": lambda text: ask("/api/products", search=f"name:{text};description:{text}"),
    }
    for kind in kinds.values():
        kind("warm up")
    assert model == settings.SEARCH_MODEL
    return {name: percentiles([kind(text) for text in texts]) for name, kind in kinds.items()}


def quality() -> dict[str, dict[str, list[float]]]:
    """Measure each kind of search on the judged queries of each language, in a shop with those products only."""
    from django.db import transaction
    from django.db.models import Q
    from django.utils import timezone

    from commerce.catalog.models import Product
    from commerce.catalog.search.indexing import update_index
    from commerce.catalog.search.services import search, search_words
    from commerce.catalog.search.vectors.embedding import update_vectors
    from commerce.catalog.search.vectors.matrix import forget_matrices
    from commerce.catalog.search.vectors.semantic import nearest_ids
    from tests.benchmarks.commerce._search_measure import LANGUAGES, load, measure

    figures: dict[str, dict[str, list[float]]] = {}
    for language in LANGUAGES:
        judged, queries = load(language)
        with transaction.atomic():
            some = Product.objects.first()
            assert some
            Product.objects.all().update(language="xx")  # this shop's own products are in no measure
            rows = Product.objects.bulk_create(
                Product(shop_id=some.shop_id, type_id=some.type_id, slug=f"judged-{number}", price=1, language=language,
                        name=product.name, description=product.description, status="publish")
                for number, product in enumerate(judged)
            )  # fmt: skip
            update_index()
            while update_vectors(now=timezone.now(), max_seconds=600):
                pass
            items = {row.pk: product.item for row, product in zip(rows, judged, strict=True)}
            products = Product.objects.public()

            def by_substring(text: str, items: dict[int, int] = items) -> list[int]:
                found = Product.objects.filter(Q(name__icontains=text) | Q(description__icontains=text), pk__in=items)
                return list(found.order_by("-pk").values_list("pk", flat=True)[:10])

            kinds: dict[str, Callable[[str], Sequence[int]]] = {
                "substring": by_substring,
                "full text": lambda text, language=language: (
                    search_words(  # type: ignore[misc]
                        text=text, language=language, products=Product.objects.public()
                    ).product_ids
                ),
                "vectors": lambda text, language=language: (
                    nearest_ids(  # type: ignore[misc]
                        text=text, language=language, products=Product.objects.public()
                    )
                    or []
                ),
                "fused": lambda text, language=language: (
                    search(  # type: ignore[misc]
                        text=text, language=language, products=Product.objects.public()
                    ).product_ids
                ),
            }
            assert products.filter(language=language).count() == len(judged)
            kinds |= {"fused, first half": kinds["fused"], "fused, second half": kinds["fused"]}
            parts = {"fused, first half": queries[::2], "fused, second half": queries[1::2]}
            figures[language] = {}
            for name, kind in kinds.items():
                found = measure(
                    parts.get(name, queries), lambda text, kind=kind, items=items: [items[pk] for pk in kind(text)]
                )  # type: ignore[misc]
                figures[language][name] = [found.mrr, found.recall]
            transaction.set_rollback(True)
        forget_matrices()
    return figures


def write_cost() -> dict[str, float]:
    """Return the milliseconds of changing a product, 100 a second, alone and while a worker follows."""
    from django.utils import timezone

    from commerce.catalog import services
    from commerce.catalog.models import Product
    from commerce.catalog.search.models import ProductVector, SearchDocument
    from shared.accounts.models import User

    owner = User.objects.get(email="owner@bench.example")
    ids = list(Product.objects.order_by("pk").values_list("pk", flat=True)[:WRITES])

    def change(pk: int) -> float:
        values = {"description": f"Changed at {time.monotonic_ns()}."}
        began = time.perf_counter()
        taken = milliseconds(
            lambda: services.change_product(actor=owner, product_id=pk, values=values, now=timezone.now())
        )
        time.sleep(max(0.0, WRITE_SECONDS - (time.perf_counter() - began)))
        return taken

    change(ids[0])
    alone = [change(pk) for pk in ids]
    with subprocess.Popen([sys.executable, "-m", __spec__.name, "worker"], stdin=subprocess.PIPE) as worker:
        time.sleep(5)
        followed = [change(pk) for pk in ids]
        began = time.monotonic()
        last = Product.objects.get(pk=ids[-1]).updated_at
        documents = SearchDocument.objects.filter(product=ids[-1], product_updated_at=last)
        vectors = ProductVector.objects.filter(product=ids[-1], product_updated_at=last)
        while not documents.exists() and time.monotonic() - began < 120:
            time.sleep(0.1)
        words = time.monotonic() - began
        while not vectors.exists() and time.monotonic() - began < 120:
            time.sleep(0.1)
        meaning = time.monotonic() - began
        worker.terminate()
    return {
        "alone": statistics.mean(alone), "followed": statistics.mean(followed), "words": words, "meaning": meaning,
    }  # fmt: skip


def follow() -> None:
    """Run the worker's two tasks, each in a thread of its own, until the process is ended."""
    from django.utils import timezone

    from commerce.catalog.search.indexing import update_index
    from commerce.catalog.search.vectors.embedding import update_vectors

    def repeat(task: Callable[[], Any]) -> None:
        while True:
            task()
            time.sleep(1)

    threading.Thread(target=repeat, args=(update_index,), daemon=True).start()
    repeat(lambda: update_vectors(now=timezone.now()))


def crowd(texts: Sequence[str]) -> dict[str, Any]:
    """Return the statuses and latencies of many clients at once, of a served shop."""
    command = [sys.executable, "manage_commerce.py", "serve", "--port", "0", "--drain", "5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout
        url = next(word.rstrip(".,") for line in server.stdout for word in line.split() if word.startswith("http://"))
        threading.Thread(target=server.stdout.read, daemon=True).start()
        httpx2.get(f"{url}/api/products/search", params={"q": texts[0]}, timeout=60)
        statuses: Counter[int] = Counter()
        taken: list[float] = []

        def shop(number: int) -> None:
            with httpx2.Client(timeout=60) as client:
                for turn in range(REQUESTS):
                    text = texts[(number * REQUESTS + turn) % len(texts)]
                    began = time.perf_counter()
                    response = client.get(f"{url}/api/products/search", params={"q": text})
                    taken.append((time.perf_counter() - began) * 1000)
                    statuses[response.status_code] += 1

        threads = [threading.Thread(target=shop, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.terminate()
    return {"statuses": statuses, **percentiles(taken)}


def index_bytes(kind: str) -> int:
    """Return the size of the tables of the index: `vectors`, or of full text."""
    from django.db import connection

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


def main(sizes: Sequence[int]) -> None:
    from django.core.management import call_command
    from django.db import connection
    from django.utils import timezone

    from commerce.catalog.search.indexing import update_index
    from commerce.catalog.search.vectors.embedding import update_vectors
    from tests.benchmarks.commerce._search_measure import load

    call_command("migrate", verbosity=0)
    texts = [query.text for query in load("en")[1]]
    figures: dict[str, Any] = {"sizes": {}}
    for size in sizes:
        fill(size)
        rate = index()
        if rate:
            figures["texts_per_second"] = rate
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        figures["sizes"][size] = {
            "latency": latencies(texts[:QUERIES]),
            "check": statistics.median(milliseconds(update_index) for _ in range(5)),
            "vector check": statistics.median(
                milliseconds(lambda: update_vectors(now=timezone.now())) for _ in range(5)
            ),
            "bytes": {kind: index_bytes(kind) for kind in ("full text", "vectors")},
            "crowd": crowd(texts),
            "writes": write_cost(),
        }
        if size == sizes[0]:
            figures["quality"] = quality()
    print(json.dumps(figures))


if __name__ == "__main__":
    django.setup()
    if sys.argv[1] == "worker":
        follow()
    else:
        main([int(size) for size in sys.argv[1:]])
