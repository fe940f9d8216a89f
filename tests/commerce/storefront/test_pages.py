"""Pages of the storefront, as a browser without scripts gets them."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from commerce.catalog import services
from commerce.catalog.models import ProductValue
from commerce.catalog.search.indexing import update_index
from commerce.demo.services import create_attribute
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_picture
from tests.commerce.search.test_search import HOSTILE, add


@pytest.fixture
def browser(shop: Shop, owner: User, settings, tmp_path) -> Client:  # type: ignore[no-untyped-def]
    settings.MEDIA_ROOT = tmp_path
    add(shop, "Copper kettle", "Boils <b>water</b> in three minutes.", price=4900, sale_price=3900, quantity=4)
    add(shop, "Oak lamp", "Warm light.", price=900, image=make_picture(owner), quantity=0)
    add(shop, "Hidden lamp", status="draft")
    update_index()
    return Client()


def names(page: str) -> list[str]:
    return [re.sub("<.*?>", "", name) for name in re.findall(r'<span class="name">(.*?)</span>\n', page)]


def get(browser: Client, path: str = "/shop/", status: int = 200, **query: object) -> str:
    response = browser.get(path, query)
    assert response.status_code == status, response.content[:2000]
    return str(response.content.decode())


def test_the_page_lists_public_products_with_prices_pictures_and_stock(browser: Client) -> None:
    page = get(browser)
    assert names(page) == ["Oak lamp", "Copper kettle"]
    assert "2 products" in page
    assert re.search(r'<img src="[^"]+/media/[^"]+\.webp" alt=""', page)
    assert "39.00 EUR" in page
    assert "49.00 EUR" in page
    assert page.count("Sold out</p>") == 1


def test_a_search_marks_its_words_and_corrects_them_and_escapes_everything_else(browser: Client) -> None:
    page = get(browser, q="watr <script>alert(1)</script>")
    assert names(page) == ["Copper kettle"]
    assert "Boils &lt;b&gt;<mark>water</mark>&lt;/b&gt;" in page
    assert "also for water" in page
    assert "<script>alert" not in page
    assert 'value="watr &lt;script&gt;' in page


def test_facets_are_links_that_narrow_and_widen_the_search(browser: Client) -> None:
    page = get(browser, q="lamp kettle")
    assert names(page) == ["Oak lamp", "Copper kettle"] or names(page) == ["Copper kettle", "Oak lamp"]
    link = re.search(r'<a href="(\?[^"]+)">In stock', page)
    assert link is not None
    narrowed = get(browser, "/shop/" + link[1].replace("&amp;", "&"))
    assert names(narrowed) == ["Copper kettle"]
    chosen = re.search(r'<a href="(\?[^"]+)" aria-current="true">In stock', narrowed)
    assert chosen is not None
    assert len(names(get(browser, "/shop/" + chosen[1].replace("&amp;", "&")))) == 2
    assert names(get(browser, price_from="0", price_to="10")) == ["Oak lamp"]
    assert "Remove all filters" in narrowed


def test_values_of_attributes_are_chosen_together(shop: Shop, browser: Client) -> None:
    color = create_attribute(shop, "Color", {"Red": "", "Blue": "", "Grey": ""}, now=timezone.now())
    red, blue, grey = color.values.order_by("pk")
    for value in (red, blue, grey):
        ProductValue.objects.create(product=add(shop, f"{value} rug"), value=value)
    page = get(browser, attribute_value_id=str(red.pk))
    assert names(page) == ["Red rug"]
    link = re.search(r'<a href="([^"]+)">Blue ', page)
    assert link is not None
    both = get(browser, "/shop/" + link[1].replace("&amp;", "&"))
    assert names(both) == ["Blue rug", "Red rug"]
    assert both.count('aria-current="true"') == 2


def test_pages_follow_each_other(shop: Shop, browser: Client) -> None:
    for number in range(30):
        add(shop, f"Rug {number}")
    first = get(browser)
    assert len(names(first)) == 24
    assert 'rel="next" href="?page=2"' in first
    second = get(browser, page=2)
    assert len(names(second)) == 8
    assert 'rel="prev" href="?page=1"' in second
    assert names(get(browser, page=9)) == []


def test_the_page_of_a_product_has_its_description_and_similar_products(browser: Client) -> None:
    page = get(browser, "/shop/products/copper-kettle/")
    assert "<h1>Copper kettle</h1>" in page
    assert "Boils &lt;b&gt;water&lt;/b&gt;" in page
    assert names(page) == ["Oak lamp"]


def test_hidden_and_deleted_products_have_no_page(browser: Client, owner: User, shop: Shop) -> None:
    get(browser, "/shop/products/hidden-lamp/", 404)
    kettle = shop.products.get(slug="copper-kettle")
    services.delete_product(actor=owner, product_id=kettle.pk, now=timezone.now())
    assert "There is no such product" in get(browser, "/shop/products/copper-kettle/", 404)
    assert names(get(browser, q="kettle lamp")) == ["Oak lamp"]
    assert names(get(browser, "/shop/products/oak-lamp/")) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_searched_literally(text: str, browser: Client) -> None:
    page = browser.get("/shop/", {"q": text})
    assert page.status_code == (422 if "\x00" in text else 200)


@pytest.mark.parametrize(
    ("query", "name"),
    [({"q": "x" * 10_240}, "q"), ({"price_from": "abc"}, "price_from"), ({"type_id": "1;2"}, "type_id")],
)
def test_an_invalid_query_is_a_page_that_names_what_is_wrong(query: dict[str, str], name: str, browser: Client) -> None:
    page = get(browser, status=422, **query)
    assert f"<p>{name}: " in page


def test_the_address_without_a_slash_leads_there(browser: Client) -> None:
    response = browser.get("/shop", {"q": "lamp"})
    assert (response.status_code, response.headers["Location"]) == (302, "/shop/?q=lamp")
    assert browser.post("/shop/").status_code == 405


def test_impossible_names_and_languages_are_pages_of_errors(browser: Client) -> None:
    assert browser.get("/shop/products/%00/").status_code == 404
    assert browser.get("/shop/products/copper-kettle/", {"language": "\x00"}).status_code == 422
    assert browser.get("/shop/products/copper-kettle/", {"language": "de"}).status_code == 404
