"""Search by meaning, and how vectors follow the products, with a model server on a real socket."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from commerce.catalog import services, taxonomy
from commerce.catalog.models import Product
from commerce.catalog.search.indexing import update_index
from commerce.catalog.search.models import EmbeddingModel, ProductVector
from commerce.catalog.search.vectors import embedding, matrix
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from tests.commerce.search.embedding_server import EmbeddingServer
from tests.commerce.search.test_search import HOSTILE, add, found


def update(**options: Any) -> int:
    update_index()
    return embedding.update_vectors(now=timezone.now(), **options)


def search(client: Client, q: str, **query: object) -> dict[str, Any]:
    response = client.get("/api/products/search", {"q": q, **query})
    assert response.status_code == 200, response.content
    return dict(response.json())


@pytest.fixture
def products(shop: Shop, server: EmbeddingServer) -> dict[str, Product]:
    names = ("Thermos", "Pillow", "Lantern")
    made = {name: add(shop, name, "Plain and good.") for name in names}
    assert update() == 3
    return made


def test_a_product_without_a_common_word_is_found_by_meaning(products: dict[str, Product], nobody: Client) -> None:
    page = search(nobody, "hot coffee")
    assert [product["name"] for product in page["data"]] == ["Thermos"]
    assert page["search"] == {"words": ["hot", "coffee"], "semantic": True}
    assert found(nobody, "puppy sleep") == ["Pillow"]


def test_the_list_of_products_finds_the_same(products: dict[str, Product], nobody: Client) -> None:
    page = nobody.get("/api/products", {"search": "hot coffee"}).json()
    assert [product["name"] for product in page["data"]] == ["Thermos"]


def test_the_shops_key_is_sent(products: dict[str, Product], server: EmbeddingServer) -> None:
    assert set(server.keys) == {"Bearer sk-shop"}


def test_words_and_meaning_are_fused_and_each_product_is_listed_once(
    shop: Shop, products: dict[str, Product], nobody: Client
) -> None:
    add(shop, "Hot sauce", "Made of chili.")
    update()
    assert found(nobody, "hot") == ["Hot sauce", "Thermos"]


def test_products_named_as_the_query_come_first_though_an_encoder_does_not_know_the_name(
    shop: Shop, products: dict[str, Product], nobody: Client
) -> None:
    for number in range(40):
        add(shop, f"Rug {number}")
    add(shop, "Quillon", status="draft")
    add(shop, "Quillon Spade", description="Without concepts.")
    for number in range(40, 60):
        add(shop, f"Rug {number}")
    update()
    assert found(nobody, "quillon")[0] == "Quillon Spade"
    assert found(nobody, "quillon sp")[0] == "Quillon Spade"
    assert found(nobody, "qillon")[0] == "Quillon Spade", "nor its misspelling"


def test_filters_orders_facets_and_pages_narrow_what_is_found_by_meaning(
    shop: Shop, products: dict[str, Product], nobody: Client
) -> None:
    add(shop, "Kettle", price=900)
    update()
    assert found(nobody, "hot coffee", orderBy="price", sortedBy="desc") == ["Thermos", "Kettle"]
    assert found(nobody, "hot coffee", price_to="9.50") == ["Kettle"]
    page = search(nobody, "hot coffee", facets=1, limit=1)
    assert (page["total"], page["last_page"], len(page["data"])) == (2, 2, 1)
    assert [(entry["from"], entry["count"]) for entry in page["facets"]["prices"]] == [(0.0, 1), (10.0, 1)]
    assert search(nobody, "hot coffee", limit=1, page=2)["data"][0]["name"] != page["data"][0]["name"]


def test_facets_ask_the_model_server_and_the_index_once(
    products: dict[str, Product], nobody: Client, server: EmbeddingServer
) -> None:
    before = len(server.texts)
    search(nobody, "hot coffee", facets=1, price_from="1", type_id=products["Thermos"].type_id)
    search(nobody, "  hot   coffee ")
    assert server.texts[before:] == ["hot coffee"]


def test_hidden_and_deleted_products_disappear_with_the_next_request(
    shop: Shop, owner: User, products: dict[str, Product], nobody: Client
) -> None:
    kettle = add(shop, "Kettle")
    update()
    assert found(nobody, "hot coffee") == ["Kettle", "Thermos"]
    services.delete_product(actor=owner, product_id=kettle.pk, now=timezone.now())
    assert found(nobody, "hot coffee") == ["Thermos"]
    values = {"status": "draft"}
    services.change_product(actor=owner, product_id=products["Thermos"].pk, values=values, now=timezone.now())
    assert found(nobody, "hot coffee") == []
    assert [row["name"] for row in nobody.get("/api/products/pillow/similar").json()] == ["Lantern"]
    update()
    assert ProductVector.objects.filter(product=kettle).count() == 0


def test_hidden_products_take_no_place_among_the_nearest(
    shop: Shop, products: dict[str, Product], nobody: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commerce.catalog.search.vectors.semantic.MAX_NEAREST", 1)
    for number in range(9):
        add(shop, f"Kettle {number}", status="draft")
    update()
    assert found(nobody, "hot coffee") == ["Thermos"]


def test_changed_products_are_embedded_again_and_equal_texts_are_not(
    owner: User, products: dict[str, Product], nobody: Client, server: EmbeddingServer
) -> None:
    def change(**values: object) -> None:
        pk = products["Pillow"].pk
        services.change_product(actor=owner, product_id=pk, values=values, now=timezone.now())

    before = len(server.texts)
    change(price=4711)
    assert (update(), server.texts[before:]) == (0, [])
    change(name="Dog kennel")
    assert update() == 1
    assert server.texts[before:] == ["Dog kennel. Plain and good. Home"]
    assert found(nobody, "puppy") == ["Dog kennel"]
    assert found(nobody, "sleep") == []
    assert update() == 0
    assert ProductVector.objects.count() == 3


def test_a_product_of_another_language_has_its_vector_there(products: dict[str, Product]) -> None:
    pillow = Product.objects.filter(pk=products["Pillow"].pk)
    pillow.update(language="de", updated_at=timezone.now())

    assert (update(), update()) == (1, 0)
    assert ProductVector.objects.get(product=products["Pillow"]).language == "de"


def test_a_new_name_of_a_type_is_embedded(products: dict[str, Product], server: EmbeddingServer) -> None:
    taxonomy.save_entry(entry=products["Pillow"].type, values={"name": "Puppy care"})
    assert update() == 3
    assert server.texts[-1].endswith("Plain and good. Puppy care")


def test_similar_products_are_near_in_meaning_and_need_no_model_server(
    shop: Shop, products: dict[str, Product], nobody: Client, server: EmbeddingServer
) -> None:
    add(shop, "Kettle")
    add(shop, "Flask", language="de")
    update()
    server.stop_answering()
    names = [row["name"] for row in nobody.get("/api/products/thermos/similar").json()]
    assert names == ["Kettle", "Lantern", "Pillow"]
    assert len(nobody.get("/api/products/thermos/similar", {"limit": 1}).json()) == 1
    assert nobody.get("/api/products/nothing/similar").status_code == 404


def test_no_name_of_a_product_breaks_similar_products(products: dict[str, Product], nobody: Client) -> None:
    for slug in ("%00", "a" * 300, "%F0%9F%92%A1", "%D9%85", "'%20OR%201=1", "lamp%0d%0a", "0", "9" * 20, "x" * 10_240):
        assert nobody.get(f"/api/products/{slug}/similar").status_code in (404, 422), slug


def test_similar_products_of_one_without_a_vector_are_the_newest_of_its_type(shop: Shop, nobody: Client) -> None:
    for name in ("Lamp", "Bed", "Rug"):
        add(shop, name)
    add(shop, "Hidden", status="draft")
    assert [row["name"] for row in nobody.get("/api/products/bed/similar").json()] == ["Rug", "Lamp"]


def test_without_the_model_server_words_answer_at_once_and_the_page_says_so(
    shop: Shop, products: dict[str, Product], nobody: Client, server: EmbeddingServer
) -> None:
    add(shop, "Coffee mill")
    update()
    server.delay_seconds = 3
    asked = len(server.keys)
    for number in range(12):
        page = search(nobody, f"coffee number{number}")
        assert page["search"]["semantic"] is False
        assert [product["name"] for product in page["data"]] == ["Coffee mill"]
    assert len(server.keys) - asked == 3, "three wait for half a second each, then the breaker is open"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"data": []}', b'{"data": [{"index": 0, "embedding": "%%"}]}',
             b'{"data": [{"index": 0, "embedding": [0, 0]}]}', b'{"data": [{"index": 7, "embedding": [1]}]}',
             b'{"data": [{"index": 0, "embedding": [1e39]}]}', b"x" * 9_000_000],
)  # fmt: skip
def test_a_senseless_answer_of_the_model_server_is_none(
    body: bytes, products: dict[str, Product], nobody: Client, server: EmbeddingServer
) -> None:
    server.body = body
    assert search(nobody, "hot coffee")["search"]["semantic"] is False
    ProductVector.objects.update(product_updated_at=None, fingerprint="")
    assert update() == 0
    assert EmbeddingModel.objects.get().failure


def test_numbers_are_vectors_as_well_as_base64(shop: Shop, nobody: Client, server: EmbeddingServer) -> None:
    server.form = "numbers"
    add(shop, "Thermos")
    assert update() == 1
    assert found(nobody, "hot coffee") == ["Thermos"]


def test_vectors_of_another_size_are_never_compared_and_are_made_again(
    shop: Shop, products: dict[str, Product], nobody: Client, server: EmbeddingServer
) -> None:
    server.sizes["concepts"] = 8
    page = search(nobody, "hot coffee")
    assert (page["data"], page["search"]["semantic"]) == ([], False)
    add(shop, "Kettle")
    assert update() == 1
    assert found(nobody, "hot coffee") == ["Kettle"]
    assert update() == 3
    assert sorted(found(nobody, "hot coffee")) == ["Kettle", "Thermos"]
    assert set(ProductVector.objects.values_list("dimensions", flat=True)) == {8}


def test_both_models_are_searched_while_another_one_embeds_everything(
    shop: Shop, products: dict[str, Product], nobody: Client, server: EmbeddingServer, settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    add(shop, "Kettle")
    update()
    settings.SEARCH_MODEL, server.sizes["better"] = "better", 24
    monkeypatch.setattr(embedding, "BATCH_SIZE", 1)
    assert update(max_seconds=0.0001) <= 1
    if not ProductVector.objects.filter(model="better").exists():
        assert embedding._embed(EmbeddingModel.objects.get(name="better"), [Product.objects.latest("pk").pk]) == 1
    assert ProductVector.objects.filter(model="better").count() == 1
    server.models.clear()
    assert sorted(found(nobody, "hot coffee")) == ["Kettle", "Thermos"]
    assert sorted(server.models) == ["better", "concepts"]
    assert update() == 3
    assert set(ProductVector.objects.values_list("model", flat=True)) == {"better"}
    assert list(EmbeddingModel.objects.values_list("name", flat=True)) == ["better"]
    server.models.clear()
    assert sorted(found(nobody, "hot coffee")) == ["Kettle", "Thermos"]
    assert found(nobody, "warm candle")[0] in ("Lantern", "Kettle", "Thermos")
    assert set(server.models) == {"better"}


def test_a_former_model_that_is_gone_from_the_server_leaves_the_new_one(
    shop: Shop, products: dict[str, Product], nobody: Client, server: EmbeddingServer, settings: Any
) -> None:
    settings.SEARCH_MODEL, server.sizes = "better", {"better": 24}
    ids = [products["Thermos"].pk]
    model = EmbeddingModel.objects.create(name="better")
    assert embedding._embed(model, ids) == 1
    page = search(nobody, "hot coffee")
    assert [product["name"] for product in page["data"]] == ["Thermos"]
    assert page["search"]["semantic"] is True


def test_a_product_has_one_vector_a_model(products: dict[str, Product]) -> None:
    row = ProductVector.objects.first()
    assert row is not None
    row.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save()


def test_a_text_that_is_too_long_for_the_model_is_shortened(shop: Shop, server: EmbeddingServer) -> None:
    server.max_length = 100
    long, short = add(shop, "Kettle", description="Warm. " * 90), add(shop, "Lamp")
    assert update() == 2
    assert set(ProductVector.objects.values_list("product_id", flat=True)) == {long.pk, short.pk}
    assert EmbeddingModel.objects.get().failed_at is None


def test_after_a_failure_the_worker_waits_and_says_why(shop: Shop, server: EmbeddingServer, settings: Any) -> None:
    add(shop, "Thermos")
    settings.SEARCH_MODEL = "absent"
    now = timezone.now()
    assert embedding.update_vectors(now=now) == 0
    model = EmbeddingModel.objects.get()
    assert model.failure == "The model server answered 404. Is absent loaded, and may the key use it?"
    calls = len(server.models)
    assert embedding.update_vectors(now=now + timedelta(seconds=5)) == 0
    assert len(server.models) == calls
    server.sizes["absent"] = 16
    assert embedding.update_vectors(now=now + timedelta(seconds=60)) == 1
    model.refresh_from_db()
    assert (model.failed_at, model.failure) == (None, "")


def test_without_a_model_nothing_is_asked(
    shop: Shop, products: dict[str, Product], nobody: Client, server: EmbeddingServer, settings: Any
) -> None:
    settings.SEARCH_MODEL = ""
    calls = len(server.models)
    assert (update(), search(nobody, "hot coffee")["search"]["semantic"]) == (0, False)
    assert len(server.models) == calls


def test_the_admin_shows_the_progress_of_a_model(
    shop: Shop, products: dict[str, Product], server: EmbeddingServer, settings: Any
) -> None:
    admin = create_user(email="root@example.com", name="Root", password=None, role=Role.SUPER_ADMIN, now=timezone.now())
    client = Client()
    client.force_login(admin)

    def rows() -> list[str]:
        page = client.get("/admin/commerce_search/embeddingmodel/")
        assert page.status_code == 200
        return [f"{row}: {state}" for row, state in states(page)]

    def states(page: Any) -> list[tuple[str, str]]:
        model_admin, result = page.context["cl"].model_admin, page.context["cl"].result_list
        return [(row.name, f"{model_admin.state(row)}, {model_admin.progress(row)}") for row in result]

    assert rows() == ["concepts: In use, 3 of 3 (100 %)"]
    settings.SEARCH_MODEL, server.sizes["better"] = "better", 24
    embedding._embed(EmbeddingModel.objects.create(name="better"), [products["Thermos"].pk])
    assert rows() == [
        "better: Embedding, 1 of 3 (33 %)",
        "concepts: Replaced; searched until the new model is complete, 3 of 3 (100 %)",
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_literal_by_meaning_too(text: str, products: dict[str, Product], nobody: Client) -> None:
    response = nobody.get("/api/products/search", {"q": text})
    assert response.status_code == (422 if "\x00" in text else 200)


def test_the_matrix_forgets_rows_that_others_have_removed(
    products: dict[str, Product], nobody: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(matrix.current_matrix("concepts", "en", 16)) == 3
    ProductVector.objects.filter(product=products["Thermos"]).delete()
    monkeypatch.setattr(matrix, "COUNT_SECONDS", -1.0)
    matrix.forget_matrices()
    assert len(matrix.current_matrix("concepts", "en", 16)) == 2


def test_many_replaced_rows_do_not_stay_in_memory(
    products: dict[str, Product], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MIN_CAPACITY", 2)
    kept = matrix.current_matrix("concepts", "en", 16)
    for _ in range(12):
        ProductVector.objects.update(fingerprint="", product_updated_at=None)
        assert update() == 3
        kept.refresh()
        assert len(kept) == 3
        assert kept._size <= 3 * 3 + 2
