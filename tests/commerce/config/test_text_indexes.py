"""Text search by PostgreSQL's trigram indexes."""

from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from commerce.catalog.models import Product
from commerce.catalog.search.models import SearchWord
from commerce.reviews.models import Question, Review
from commerce.shops.models import Shop
from shared.api.lists import text_indexes
from tests.commerce.catalog.factories import make_product

SEARCHED = [
    (Product, "name"),
    (Product, "description"),
    (Product, "sku"),
    (Review, "comment"),
    (Question, "question"),
    (Question, "answer"),
    (SearchWord, "word"),
]


@pytest.fixture
def _on_postgresql(db: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("about PostgreSQL")


def index_names() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%gin_trgm_ops%'")
        return {name for (name,) in cursor.fetchall()}


WANTED = {f"{model._meta.db_table}_{column}_text" for model, column in SEARCHED}


@pytest.mark.usefixtures("_on_postgresql")
@pytest.mark.parametrize(("model", "column"), SEARCHED)
def test_a_search_within_a_text_reads_an_index(model: Any, column: str):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # a sequential scan is faster for few rows
        cursor.execute("SET LOCAL enable_indexscan = off")  # so is an index scan of a small table

    plan = model.objects.filter(**{f"{column}__icontains": "Velmo"}).order_by().explain()

    assert f"Bitmap Index Scan on {model._meta.db_table}_{column}_text" in plan


@pytest.mark.usefixtures("_on_postgresql")
def test_migrating_again_creates_missing_and_invalid_indexes():
    assert index_names() == WANTED
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX commerce_catalog_product_name_text")
        cursor.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'commerce_reviews_review_comment_text'::regclass"
        )

    text_indexes.create_text_indexes(using="default")

    assert index_names() == WANTED
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_index WHERE NOT indisvalid")
        assert cursor.fetchone() == (0,)


@pytest.mark.usefixtures("_on_postgresql")
def test_without_the_extension_migrations_create_no_indexes(monkeypatch: pytest.MonkeyPatch):
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX commerce_catalog_product_name_text")
    monkeypatch.setattr(text_indexes, "EXTENSION", "no_such_extension")

    call_command("migrate", verbosity=0)

    assert index_names() == WANTED - {"commerce_catalog_product_name_text"}


@pytest.mark.usefixtures("_on_postgresql")
def test_without_permission_for_the_extension_migrations_create_no_indexes(monkeypatch: pytest.MonkeyPatch):
    with connection.cursor() as cursor:
        cursor.execute("DROP EXTENSION pg_trgm CASCADE")
        cursor.execute("CREATE ROLE shopkeeper; SET ROLE shopkeeper")

    text_indexes.create_text_indexes(using="default")

    assert index_names() == set()


@pytest.mark.parametrize("found", ["oak", "OAK", "warm oak", "100% oa", "k_"])
def test_a_search_finds_words_of_a_description(shop: Shop, found: str):
    make_product(shop, status="publish", description="Of 100% oak_wood, and warm oak veneer.")
    make_product(shop, "chair", status="publish", description="Of beech.")

    rows = Client().get("/api/products", {"search": f"description:{found}"}).json()["data"]

    assert [row["slug"] for row in rows] == ["velmo-lamp"]
