"""Search in products and suggestions, as a storefront asks for them."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from commerce.catalog import services
from commerce.catalog.models import Product
from commerce.catalog.search import postgresql
from commerce.catalog.search.indexing import update_index
from commerce.catalog.search.models import SearchDocument, SearchWord
from commerce.catalog.search.text_index import text_index
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient

HOSTILE = [
    '"', "'", '" OR 1=1 --', "name:lamp NEAR(a b)", "lamp AND", "NOT lamp", "(lamp", "lamp*", "^lamp", "-lamp", "a & b",
    "lamp:*", "!lamp", "lamp <-> oak", "{name}:lamp", "\x00lamp", "lamp\x1b[31m", "💡", "مصباح مكتب", "שולחן", "%", "_",
    "\u202elamp", "lamp " * 150, "ﷺ", "日本語", "é" * 500, "a\u0301" * 100, "1" * 900, "' || pg_sleep(9) || '",
]  # fmt: skip


def add(shop: Shop, name: str, description: str = "", **fields: object) -> Product:
    fields = {"slug": name.lower().replace(" ", "-"), "status": "publish", **fields}
    return make_product(shop, name=name, description=description, **fields)


def found(client: Client, q: str, **query: object) -> list[str]:
    response = client.get("/api/products/search", {"q": q, **query})
    assert response.status_code == 200, response.content
    return [product["name"] for product in response.json()["data"]]


def suggested(client: Client, q: str) -> list[dict[str, str]]:
    response = client.get("/api/products/suggest", {"q": q})
    assert response.status_code == 200, response.content
    return response.json()["data"]


def test_a_word_in_the_name_is_before_one_in_the_description_and_that_before_the_shop(
    shop: Shop, owner: User, nobody: Client
) -> None:
    kettles = Shop.objects.create(owner=owner, name="Kettle House", slug="kettle-house")
    add(kettles, "Plain cup", "A vessel that one drinks from.")
    add(shop, "Stove", "Boils a kettle in three minutes.")
    add(shop, "Copper kettle", "A vessel that boils water.")
    add(shop, "Bed", "Sleep well.")
    update_index()
    assert found(nobody, "kettle") == ["Copper kettle", "Stove", "Plain cup"]


def test_inflected_english_words_are_found_by_their_stem(shop: Shop, nobody: Client) -> None:
    add(shop, "Running shoes")
    update_index()
    assert found(nobody, "shoe for runs") == ["Running shoes"]


def test_each_language_is_searched_by_itself(shop: Shop, nobody: Client) -> None:
    add(shop, "Tassen", language="de")
    add(shop, "Tassen rack")
    update_index()
    assert found(nobody, "tasse", language="de") == ["Tassen"]
    assert found(nobody, "tassen") == ["Tassen rack"]


def test_a_misspelled_word_is_corrected(shop: Shop, nobody: Client) -> None:
    add(shop, "Electric kettle")
    add(shop, "Wool socks")
    update_index()
    response = nobody.get("/api/products/search", {"q": "elektric ketle"}).json()
    assert [product["slug"] for product in response["data"]] == ["electric-kettle"]
    assert response["search"]["words"] == ["elektric", "electric", "ketle", "kettle"]


def test_a_misspelled_word_is_corrected_without_trigrams(shop: Shop, nobody: Client) -> None:
    add(shop, "Electric kettle")
    update_index()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("DROP EXTENSION IF EXISTS pg_trgm CASCADE")
    postgresql.has_trigrams.cache_clear()
    try:
        assert found(nobody, "ketlte") == ["Electric kettle"]
    finally:
        postgresql.has_trigrams.cache_clear()


def test_a_result_shows_where_the_words_are_and_escapes_all_else(shop: Shop, nobody: Client) -> None:
    add(shop, "Lamp <b>", "x" * 30 + " and words " * 30 + "<script>alert(1)</script> with two lamps & more")
    update_index()
    highlight = nobody.get("/api/products/search", {"q": "lamp"}).json()["data"][0]["highlight"]
    assert highlight["name"] == "<mark>Lamp</mark> &lt;b&gt;"
    assert "<mark>lamps</mark> &amp; more" in highlight["description"]
    assert highlight["description"].startswith("… ")
    assert "<script" not in highlight["description"]


def test_a_search_has_the_page_and_the_filters_of_the_list(shop: Shop, owner: User, nobody: Client) -> None:
    other = Shop.objects.create(owner=owner, name="Other", slug="other")
    for number in range(4):
        add(shop, f"Oak lamp {number}", price=1000 - number)
    add(other, "Oak lamp of another shop")
    update_index()
    page = nobody.get("/api/products/search", {"q": "oak", "shop_id": shop.pk, "limit": 3, "with": "shop"}).json()
    assert (page["total"], page["per_page"], page["last_page"]) == (4, 3, 2)
    assert {product["shop"]["slug"] for product in page["data"]} == {"corner"}
    assert "q=oak" in page["next_page_url"]
    assert found(nobody, "oak", shop_id=shop.pk, orderBy="price", sortedBy="asc")[0] == "Oak lamp 3"
    assert found(nobody, "oak", search="name:lamp 2") == ["Oak lamp 2"]


def test_search_without_a_field_searches_the_index(shop: Shop, nobody: Client) -> None:
    add(shop, "Copper kettle")
    add(shop, "Oak lamp")
    update_index()
    for query in ("kettle", "ketle", "kettles"):
        page = nobody.get("/api/products", {"search": query}).json()
        assert [product["name"] for product in page["data"]] == ["Copper kettle"], query
    with_field = nobody.get("/api/products", {"search": "name:lamp"}).json()
    assert [product["name"] for product in with_field["data"]] == ["Oak lamp"]


def test_a_hidden_or_deleted_product_is_gone_from_the_next_request(shop: Shop, owner: User, nobody: Client) -> None:
    products = {name: add(shop, name) for name in ("Lamp one", "Lamp two", "Lamp three")}
    update_index()
    services.delete_product(actor=owner, product_id=products["Lamp one"].pk, now=timezone.now())
    services.change_product(
        actor=owner, product_id=products["Lamp two"].pk, values={"status": "draft"}, now=timezone.now()
    )
    assert found(nobody, "lamp") == ["Lamp three"]
    assert [row["text"] for row in suggested(nobody, "lam")] == ["Lamp three"]
    Shop.objects.update(is_active=False)
    assert (found(nobody, "lamp"), suggested(nobody, "lam")) == ([], [])


def test_the_owner_finds_products_that_are_not_published(
    shop: Shop, owner: User, nobody: Client, client_of: ApiClient
) -> None:
    add(shop, "Draft lamp", status="draft")
    update_index()
    assert found(client_of(owner), "lamp", shop_id=shop.pk) == ["Draft lamp"]
    assert found(nobody, "lamp", shop_id=shop.pk) == []


def test_the_index_follows_changes_of_products_and_shops(shop: Shop, owner: User, nobody: Client) -> None:
    lamp = add(shop, "Oak lamp")
    assert update_index() == 1
    assert update_index() == 0
    services.change_product(actor=owner, product_id=lamp.pk, values={"name": "Copper sconce"}, now=timezone.now())
    assert update_index() == 1
    assert (found(nobody, "lamp"), found(nobody, "sconce")) == ([], ["Copper sconce"])
    shop.name = "Bergström"
    shop.save()
    assert update_index() == 1
    assert found(nobody, "bergström") == ["Copper sconce"]
    services.delete_product(actor=owner, product_id=lamp.pk, now=timezone.now())
    assert (update_index(), SearchDocument.objects.count()) == (1, 0)


def test_a_product_that_changes_while_it_is_indexed_is_indexed_again(
    shop: Shop, owner: User, nobody: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lamp, sofa = add(shop, "Oak lamp"), add(shop, "Oak sofa")
    index = text_index()
    take_lock = index.take_lock

    def change_first() -> bool:
        monkeypatch.setattr(index, "take_lock", take_lock)
        services.change_product(actor=owner, product_id=lamp.pk, values={"name": "Copper lamp"}, now=timezone.now())
        services.delete_product(actor=owner, product_id=sofa.pk, now=timezone.now())
        SearchWord.objects.create(language="en", word="lamp")  # as another process does that indexes such a product
        return take_lock()

    monkeypatch.setattr(index, "take_lock", change_first)
    assert update_index() == 2
    assert found(nobody, "sofa") == []
    assert update_index() == 2
    assert (found(nobody, "oak"), found(nobody, "copper")) == ([], ["Copper lamp"])
    assert list(SearchDocument.objects.values_list("pk", flat=True)) == [lamp.pk]
    assert update_index() == 0


def test_suggestions_continue_the_last_word(shop: Shop, nobody: Client) -> None:
    add(shop, "Coffee mug")
    add(shop, "Travel mug for coffee")
    add(shop, "Oak lamp", "Good with coffee.")
    update_index()
    assert suggested(nobody, "cof") == [
        {"text": "Coffee mug", "slug": "coffee-mug"},
        {"text": "Travel mug for coffee", "slug": "travel-mug-for-coffee"},
    ]
    assert [row["text"] for row in suggested(nobody, "travel m")] == ["Travel mug for coffee"]
    assert suggested(nobody, "  ") == []


def test_search_and_suggest_are_no_slugs_of_products(shop: Shop, owner: User) -> None:
    product_type = make_product(shop).type_id
    for name in ("Search", "Suggest"):
        values = {"name": name, "type_id": product_type, "price": 100}
        product = services.create_product(actor=owner, shop_id=shop.pk, values=values, now=timezone.now())
        assert product.slug == f"{name.lower()}-2"


def test_a_huge_query_is_refused_and_says_why(nobody: Client) -> None:
    for path, name in (("search", "q"), ("suggest", "q"), ("", "search")):
        response = nobody.get(f"/api/products/{path}".rstrip("/"), {name: "x" * 10_240})
        assert (response.status_code, list(response.json()["errors"])) == (422, [name]), path


@pytest.mark.parametrize("query", [{}, {"q": ""}, {"q": " "}])
def test_an_empty_query_finds_all_products(query: dict[str, str], shop: Shop, nobody: Client) -> None:
    add(shop, "Oak lamp")
    page = nobody.get("/api/products/search", query).json()
    assert [product["name"] for product in page["data"]] == ["Oak lamp"]
    assert page["search"] == {"words": [], "semantic": False}


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_literal(text: str, shop: Shop, nobody: Client) -> None:
    add(shop, "Quartz zither")
    update_index()
    for path, name in (("search", "q"), ("suggest", "q"), ("", "search")):
        response = nobody.get(f"/api/products/{path}".rstrip("/"), {name: text})
        if "\x00" in text and path == "search":
            assert response.status_code == 422, path
            continue
        assert response.status_code == 200, (path, response.content)
        names = [row.get("name", row.get("text")) for row in response.json()["data"]]
        names_no_field = name == "search" and ":" in text and not text.startswith("name:")
        assert names == (["Quartz zither"] if names_no_field else []), path


def test_c7_a_search_takes_as_many_queries_for_many_products_as_for_few(shop: Shop, nobody: Client) -> None:
    def cost(query: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert found(nobody, query, limit=100, **{"with": "shop;type;categories;variations"})
        return len(queries)

    add(shop, "Copper lamp")
    make_products = [add(shop, f"Oak lamp {number}") for number in range(60)]
    update_index()
    assert len(found(nobody, "oak", limit=100)) == len(make_products)
    assert cost("oak") <= cost("copper") + 1, "one more counts the rows that the page does not show"


def test_the_admin_finds_words_within_a_name_in_any_language_and_corrects_them(shop: Shop) -> None:
    add(shop, "Copper kettle", status="draft")
    add(shop, "Wasserkocher aus Kupfer", language="de")
    add(shop, "Oak bed")
    update_index()
    admin = create_user(email="root@example.com", name="Root", password=None, role=Role.SUPER_ADMIN, now=timezone.now())
    client = Client()
    client.force_login(admin)
    for term, names in {
        "ketle": ["Copper kettle"],
        "kupfer": ["Wasserkocher aus Kupfer"],
        "oak": ["Oak bed"],
        "' OR 1=1": [],
    }.items():
        page = client.get("/admin/commerce_catalog/product/", {"q": term})
        assert page.status_code == 200
        assert [product.name for product in page.context["cl"].result_list] == names, term


def test_words_that_only_drafts_and_inactive_shops_have_correct_nothing(
    shop: Shop, owner: User, nobody: Client
) -> None:
    closed = Shop.objects.create(owner=owner, name="Closed", slug="closed", is_active=False)
    add(shop, "Zanzibarium", status="draft")
    add(closed, "Quicksilverine")
    hidden = add(shop, "Marzipanelle")
    update_index()
    Product.objects.filter(pk=hidden.pk).update(status="draft", updated_at=timezone.now())
    update_index()
    for word in ("zanzibariun", "quicksilverina", "marzipanella", "zanzibarium"):
        assert nobody.get("/api/products/search", {"q": word}).json()["search"]["words"] == [word]


def test_drafts_take_no_place_among_the_best_results_and_suggestions(
    shop: Shop, nobody: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commerce.catalog.search.services.MAX_RESULTS", 1)
    monkeypatch.setattr("commerce.catalog.search.services.MAX_SUGGESTION_CANDIDATES", 1)
    add(shop, "Lamp of the hall")
    add(shop, "Lamp", status="draft")
    update_index()
    assert found(nobody, "lamp") == ["Lamp of the hall"]
    assert [product["slug"] for product in suggested(nobody, "lamp")] == ["lamp-of-the-hall"]


def test_products_with_many_different_words_are_indexed(
    shop: Shop, nobody: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commerce.catalog.search.indexing.MAX_WORDS_PER_QUERY", 2)
    add(shop, "Copper kettle with whistle", "Boils water. " + "padding " * 250 + "beyond")
    assert update_index() == 1
    words = {"copper", "kettle", "with", "whistle", "boils", "water", "padding"}
    assert set(SearchWord.objects.values_list("word", flat=True)) - {"padd", "paddin"} == words
    assert found(nobody, "beyond") == ["Copper kettle with whistle"]


@pytest.mark.parametrize(
    ("path", "name"), [("products/search", "q"), ("products/suggest", "q"), ("products", "search")]
)
def test_a_search_that_takes_too_long_is_422_that_names_its_parameter(
    path: str, name: str, shop: Shop, nobody: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor == "postgresql":
        pytest.skip("PostgreSQL limits statements of a millisecond or more, which a small index does not take.")
    add(shop, "Lamp")
    update_index()
    monkeypatch.setattr("commerce.catalog.search.services.MAX_QUERY_SECONDS", 0.0)
    monkeypatch.setattr("shared.api.limits.query_limits.PROGRESS_INSTRUCTIONS", 1)
    response = nobody.get(f"/api/{path}", {name: "lamp"})
    assert response.status_code == 422
    assert response.json()["errors"] == {name: ["This search takes more than 0 seconds. Send fewer or rarer words."]}
