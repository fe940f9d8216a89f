"""What the dashboard shows to whom: the figures that the API tells, and the same as CSV."""

import csv
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from commerce.analytics import dashboard, services
from commerce.catalog.models import Category, Product
from commerce.orders.models import Order
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.analytics.market import Market, make_order, make_refund, told
from tests.commerce.conftest import make_user
from tests.commerce.reviews.writing import review

DASHBOARD = "/admin/dashboard/"
TABLES = ("over-time", "statuses", "shops", "category-sales", "category-products", "top-rated", "low-stock")
# With the API's list of the same rows, and what it calls them by.
OF_LANGUAGE = {
    "category-sales": ("category-wise-product-sale", "category_name"),
    "category-products": ("category-wise-product", "category_name"),
    "top-rated": ("top-rate-product", "name"),
    "low-stock": ("low-stock-products", "name"),
}


def visitor(market: Market, name: str) -> Client:
    """The browser of one of the market's people, whom `market.clients` has by an API key."""
    users = {
        "platform": User.objects.get(role=Role.SUPER_ADMIN),
        "owner": market.shops[0].owner,
        "staff": User.objects.get(role=Role.STAFF),
        "other": market.shops[2].owner,
    }
    client = Client(raise_request_exception=False)
    client.force_login(users[name])
    return client


def shown(client: Client, query: str = "") -> Any:
    answer = client.get(f"{DASHBOARD}{query}")
    assert answer.status_code == 200, answer.content
    return answer.context


def text(client: Client, query: str = "") -> str:
    return client.get(f"{DASHBOARD}{query}").content.decode()


def downloaded(client: Client, table: str, query: str = "") -> list[list[str]]:
    answer = client.get(f"{DASHBOARD}{table}.csv{query}")
    assert answer.status_code == 200
    body = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    return list(csv.reader(body.splitlines()))


@pytest.fixture
def busy(market: Market, now: datetime) -> Market:
    for days in (0, 1, 2, 31, 40):
        make_order(market.customers[days % 2], market.products[: 4 + days % 3], at=now - timedelta(days=days))
    make_order(market.customers[0], market.products[4:], at=now, status="pending")
    make_order(market.customers[1], market.products[:1], at=now, currency="JPY")
    make_refund(Order.objects.filter(shop=market.shops[1], currency="EUR").first(), 250, at=now)  # type: ignore[arg-type]
    for user in market.customers:
        review(user, market.products[0], rating=4)
    Product.objects.filter(pk__in=[product.pk for product in market.products[:5]]).update(quantity=3)
    return market


@pytest.mark.parametrize("name", ["platform", "owner", "staff", "other"])
@pytest.mark.parametrize("folded", [False, True], ids=["not folded", "folded"])
@pytest.mark.parametrize("currency", ["EUR", "JPY"])
def test_the_page_shows_what_the_api_tells(busy: Market, now: datetime, name: str, folded: bool, currency: str):
    if folded:
        services.fold(now=now)
    days = f"?from=2026-03-01&to=2026-03-30&currency={currency}"
    api, page = told(busy.clients[name], f"analytics{days}&compare=previous"), shown(visitor(busy, name), days)

    figures, places = page["figures"], 1 if currency == "JPY" else 100
    sums, earlier = figures.sums, figures.sums_before
    for body, read in ((api, sums), (api["previous"], earlier)):
        assert (read.revenue, read.refunds, read.orders, read.new_customers) == (
            round(body["totalRevenue"] * places), round(body["totalRefunds"] * places), body["totalOrders"],
            body["newCustomers"],
        )  # fmt: skip
    assert sum(column.revenue for column in figures.over_time) == sums.revenue
    assert sum(column.orders for column in figures.over_time_before) == earlier.orders
    assert page["tiles"][1].value == str(api["totalOrders"])
    assert page["currencies"] == sorted({"EUR", currency, *api["currencies"]})
    panels = {panel.name: panel for panel in page["panels"]}
    assert [(line.label, line.cells[1]) for line in panels["category-sales"].lines] == [
        (row["category_name"], str(row["total_sales"]))
        for row in told(busy.clients[name], f"category-wise-product-sale?currency={currency}")
    ]
    assert [(line.label, line.cells) for line in panels["category-products"].lines] == [
        (row["category_name"], [row["shop_name"], str(row["product_count"])])
        for row in told(busy.clients[name], "category-wise-product")
    ]
    assert [line.cells for line in panels["top-rated"].lines] == [
        [f"{row['actual_rating']:.2f}", str(row["rating_count"])]
        for row in told(busy.clients[name], "top-rate-product")
    ]
    assert [(line.label, line.cells[2]) for line in panels["low-stock"].lines] == [
        (row["name"], str(row["quantity"])) for row in told(busy.clients[name], "low-stock-products")
    ]


CHOICE = '<select id="dash-language" name="language">'


def make_german(market: Market, *places: int) -> None:
    """What the shops at these places sell, all of it nearly gone, and a category of it."""
    products = Product.objects.filter(shop__in=[market.shops[place] for place in places])
    products.update(language="de", name="Velmo Lampe", quantity=2)
    shelf = Category.objects.create(name="Lampen", slug="lamps", language="de", type=market.products[0].type)
    shelf.products.set(products)
    for product in products:
        review(market.customers[0], product, rating=3)


def names(page: Any) -> dict[str, list[str]]:
    """In the tables that are of one language."""
    return {panel.name: [line.label for line in panel.lines] for panel in page["panels"] if panel.table in OF_LANGUAGE}


def named_by_the_api(market: Market, name: str, language: str) -> dict[str, list[str]]:
    return {
        table: [row[key] for row in told(market.clients[name], f"{path}?language={language}")]
        for table, (path, key) in OF_LANGUAGE.items()
    }


def test_what_is_sold_in_german_is_shown_in_german(busy: Market):
    make_german(busy, 2)
    page = shown(visitor(busy, "other"))

    assert (page["language"], page["languages"]) == ("de", ["de", "en"])
    assert names(page) == named_by_the_api(busy, "other", "de")
    assert all(names(page).values())
    assert f"{CHOICE}<option selected>de</option><option>en</option>" in text(visitor(busy, "other"))
    assert downloaded(visitor(busy, "other"), "low-stock")[1][3:] == ["Other", "2"]


def test_of_several_languages_one_is_chosen_and_nothing_is_said_of_the_others(busy: Market):
    make_german(busy, 1)
    owner = visitor(busy, "owner")

    for query, language in (("", "en"), ("?language=de", "de"), ("?language=fr", "fr")):
        assert shown(owner, query)["language"] == language
        assert names(shown(owner, query)) == named_by_the_api(busy, "owner", language)
        assert text(owner, query).count(f"Language: {language}.") == 4
    page = text(owner, "?language=fr")
    assert f"{CHOICE}<option>de</option><option>en</option><option selected>fr</option>" in page
    assert page.count("Nothing of this language.") == 4
    for words in ("No reviews yet.", "Nothing was sold yet.", "No product stands in", "Every product has"):
        assert words not in page


def test_without_english_products_the_language_of_most_is_shown(busy: Market):
    first, *others = busy.products[:4]
    Product.objects.filter(pk=first.pk).update(language="de")
    Product.objects.filter(pk__in=[product.pk for product in others]).update(language="fr")
    assert shown(visitor(busy, "owner"))["language"] == "fr"
    assert shown(visitor(busy, "owner"))["languages"] == ["de", "en", "fr"]
    assert shown(visitor(busy, "platform"))["language"] == "en"


def test_categories_of_another_language_than_their_products_can_be_chosen(busy: Market):
    Category.objects.update(language="de")
    Category.objects.create(name="Lampes", slug="lamps", language="fr", type=busy.products[0].type)  # of nothing
    for name, languages in (("owner", ["de", "en"]), ("platform", ["de", "en", "fr"])):
        page = shown(visitor(busy, name))
        assert (page["language"], page["languages"]) == ("en", languages)
        assert "Nothing was sold yet." not in text(visitor(busy, name))
        of_german = {panel.table: panel.lines for panel in shown(visitor(busy, name), "?language=de")["panels"]}
        assert of_german["category-sales"]
        assert of_german["category-products"]


def test_the_platform_has_the_languages_of_all_its_products_that_of_most_first(busy: Market):
    german, deleted, *french = busy.products
    Product.objects.filter(pk=german.pk).update(language="de")
    Product.objects.filter(pk=deleted.pk).update(language="nl", deleted_at=timezone.now())
    Product.objects.filter(pk__in=[product.pk for product in french]).update(language="fr")
    Category.objects.update(language="sv")
    page = shown(visitor(busy, "platform"))
    assert (page["language"], page["languages"]) == ("fr", ["de", "en", "fr", "sv"])
    Product.objects.update(deleted_at=timezone.now())
    page = shown(visitor(busy, "platform"))
    assert (page["language"], page["languages"]) == ("en", ["en", "sv"])


def test_where_all_is_english_there_is_no_choice_of_languages(busy: Market):
    page = text(visitor(busy, "owner"), "?language=en")
    assert CHOICE not in page
    assert "Language:" not in page


@pytest.mark.parametrize("most_shops", [200, 2])
def test_every_link_of_a_page_keeps_its_language(busy: Market, monkeypatch: pytest.MonkeyPatch, most_shops: int):
    monkeypatch.setattr(dashboard, "MOST_SHOPS_TO_CHOOSE", most_shops)
    client = visitor(busy, "platform")
    for query in ("?language=de", f"?language=de&shop_id={busy.shops[0].pk}"):
        page = text(client, query)
        links = re.findall(r'(?:href|hx-get)="((?:/admin/dashboard/[^"?]*)?\?[^"]+)"', page)
        assert len(links) >= 7 + 7
        assert [link for link in links if "language=de" not in link] == []
    table = client.get(f"{DASHBOARD}shops/?language=de").content.decode()
    assert table.count("language=de") == table.count("?") == 4


def test_a_file_has_what_the_page_shows(busy: Market):
    make_german(busy, 1, 2)
    client = visitor(busy, "platform")
    panels = [panel for panel in shown(client, "?language=de")["panels"] if panel.table in OF_LANGUAGE]
    for panel in panels:
        link = re.search(rf'{panel.table}.csv(\?[^"]+)"', text(client, "?language=de"))
        assert link is not None
        rows = downloaded(client, panel.table, link[1].replace("&amp;", "&"))
        assert [row[1] for row in rows[1:]] == [line.label for line in panel.lines]
        assert panel.lines


def test_a_form_with_an_error_keeps_what_else_was_asked(busy: Market):
    shop = busy.shops[1].pk
    page = text(visitor(busy, "owner"), f"?language=de&currency=JPY&shop_id={shop}&from=soon")
    for name, value in (("language", "de"), ("currency", "JPY")):
        assert f'<input type="hidden" name="{name}" value="{value}">' in page
    assert re.findall(r'<option value="(\d*)" selected>', page) == [str(shop)]
    for name, value, words in (
        ("language", "x" * 17, "code of a language"),
        ("currency", "gold", "three capital letters"),
    ):
        page = text(visitor(busy, "owner"), f"?{name}={value}")
        assert words in page
        assert f'name="{name}"' not in page


def test_money_is_shown_in_its_currency_and_beside_the_period_before(busy: Market):
    page = text(visitor(busy, "owner"), "?from=2026-03-28&to=2026-03-30")

    assert "150.00 EUR" in page
    assert "2.50 EUR" in page
    assert "Revenue (EUR)" in page
    assert "28 Mar 2026 to 30 Mar 2026" in page
    assert "compared with 25 Mar 2026 to 27 Mar 2026" in page
    assert "<b>none before</b></dd>" in page
    assert "1,250 JPY" in text(visitor(busy, "owner"), "?currency=JPY")


def test_everybody_has_their_own_and_may_ask_for_one_of_their_shops(busy: Market):
    first, second, third = (shop.pk for shop in busy.shops)

    def shops(name: str, query: str = "") -> list[str]:
        panels = shown(visitor(busy, name), query)["panels"]
        return [line.label for panel in panels if panel.name == "shops" for line in panel.lines]

    assert sorted(shops("platform")) == ["Corner", "Harbour", "Other"]
    assert sorted(shops("owner")) == ["Corner", "Harbour"]
    assert shops("staff") == shops("other") == shops("owner", f"?shop_id={first}") == []
    assert shown(visitor(busy, "owner"), f"?shop_id={first}")["shop_name"] == "Corner"
    assert shown(visitor(busy, "staff"))["shop_choices"] == [(second, "Harbour")]
    for name, pk in (("owner", third), ("staff", first), ("other", second), ("platform", 10**9)):
        for path in (DASHBOARD, *(f"{DASHBOARD}{table}.csv" for table in TABLES)):
            assert visitor(busy, name).get(f"{path}?shop_id={pk}").status_code == 404
    assert "Other" not in text(visitor(busy, "owner"))


def test_a_shop_leads_to_its_figures_and_for_the_platform_products_to_their_pages(busy: Market):
    lamp = busy.products[0].pk
    change = f"/admin/commerce_catalog/product/{lamp}/change/"

    assert change in text(visitor(busy, "platform"))
    assert change not in text(visitor(busy, "owner"))
    page = visitor(busy, "owner")
    link = re.search(rf'href="/admin/dashboard/(\?shop_id={busy.shops[0].pk}&amp;[^"]+)"', text(page))
    assert link is not None
    assert shown(page, link[1].replace("&amp;", "&"))["shop_id"] == busy.shops[0].pk


def test_of_very_many_shops_one_is_typed_and_their_table_comes_after_the_page(
    busy: Market, monkeypatch: pytest.MonkeyPatch
):
    client, days = visitor(busy, "platform"), "?from=2026-03-01&to=2026-03-30"
    whole = {panel.name: panel for panel in shown(client, days)["panels"]}["shops"]
    monkeypatch.setattr(dashboard, "MOST_SHOPS_TO_CHOOSE", 2)

    page = client.get(f"{DASHBOARD}{days}")
    assert "shops" not in [panel.name for panel in page.context["panels"]]
    assert 'type="number"' in page.content.decode()
    link = re.search(r'hx-get="/admin/dashboard/shops/(\?[^"]+)"', page.content.decode())
    assert link is not None
    table = client.get(f"{DASHBOARD}shops/{link[1].replace('&amp;', '&')}")
    assert table.context["panel"] == whole
    assert [line.label for line in visitor(busy, "owner").get(f"{DASHBOARD}shops/").context["panel"].lines] == [
        "Corner", "Harbour",
    ]  # fmt: skip
    assert visitor(busy, "owner").get(f"{DASHBOARD}shops/?shop_id={busy.shops[2].pk}").status_code == 404


def test_the_sidebar_is_the_platforms_alone(busy: Market):
    assert 'id="nav-sidebar"' in text(visitor(busy, "platform"))
    page = text(visitor(busy, "owner"))
    assert "nav-sidebar" not in page
    assert "/admin/accounts/" not in page
    assert "Sign out" in page


@pytest.mark.parametrize("query", ["", "?from=2026-03-30&to=2026-03-30", "?from=2000-01-01&to=2099-12-31"])
def test_a_shop_with_nothing_says_so(market: Market, query: str):
    Category.objects.all().delete()
    page = text(visitor(market, "other"), query)

    assert "<svg class" not in page
    assert page.count("Nothing in these days.") == 3
    for words in ("No orders in these days.", "Nothing was sold yet.", "No product stands in a category yet.",
                  "No reviews yet.", "0.00 EUR"):  # fmt: skip
        assert words in page


def test_owners_and_staff_without_a_shop_are_told_so(market: Market):
    for role in (Role.STORE_OWNER, Role.STAFF):
        client = Client()
        client.force_login(make_user(role, "shopless"))
        assert "You have no shop yet" in text(client)


def test_one_day_is_one_bar_beside_the_day_before(busy: Market):
    page = shown(visitor(busy, "owner"), "?from=2026-03-30&to=2026-03-30")
    revenue = page["charts"][0]

    assert (len(revenue.chart.bars), len(revenue.chart.marks), revenue.chart.line) == (1, 1, "")
    assert [(line.label, line.cells) for line in revenue.lines] == [
        ("30 Mar 2026", ["50.00 EUR", "29 Mar 2026", "50.00 EUR"])
    ]
    assert text(visitor(busy, "owner"), "?from=2026-03-30&to=2026-03-30").count("<svg class") == 3


@pytest.mark.parametrize(
    ("query", "unit", "columns"),
    [("?from=2026-01-01&to=2026-03-30", "week", 13), ("?from=2025-04-01&to=2026-03-31", "month", 12),
     ("?from=2000-01-01&to=2026-03-30", "week", 9)],
)  # fmt: skip
def test_long_periods_have_fewer_columns_with_the_same_sums(busy: Market, query: str, unit: str, columns: int):
    figures = shown(visitor(busy, "platform"), query)["figures"]

    assert (figures.columns.unit, len(figures.over_time)) == (unit, columns)
    assert sum(column.revenue for column in figures.over_time) == figures.sums.revenue
    assert sum(column.orders for column in figures.over_time) == 6


@pytest.mark.parametrize(
    ("query", "words"),
    [("?from=soon", "Send a day from"), ("?from=2026-03-02&to=2026-03-01", "not before"),
     ("?currency=euro", "three capital letters"), ("?shop_id=x", "whole number"),
     ("?from=%3Cscript%3E", "Send a day from")],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_in_the_form_and_escaped(market: Market, query: str, words: str):
    answer = visitor(market, "owner").get(f"{DASHBOARD}{query}")

    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert '<script>"' not in answer.content.decode()
    assert 'value="<script>' not in answer.content.decode()


def test_names_are_escaped_on_the_page_and_are_no_formulas_in_a_file(busy: Market):
    evil = "=<img src=x onerror=alert(1)>\"'&"
    Shop.objects.filter(pk=busy.shops[0].pk).update(name=evil)
    Product.objects.filter(pk=busy.products[0].pk).update(name=evil, sku="@SUM(1)")
    Category.objects.update(name=evil)
    client = visitor(busy, "platform")

    page = text(client)
    assert "<img src=x" not in page
    assert page.count("=&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;") >= 4
    for table in ("shops", "category-sales", "category-products", "top-rated", "low-stock"):
        cells = [cell for row in downloaded(client, table) for cell in row]
        assert f"'{evil}" in cells, table
        assert not [cell for cell in cells if cell[:1] in "=+@\t\r" and cell]


def test_files_have_the_rows_of_the_page_exact(busy: Market):
    client, days = visitor(busy, "owner"), "?from=2026-03-29&to=2026-03-30"

    assert downloaded(client, "over-time", days) == [
        ["first", "last", "revenue (EUR)", "refunds (EUR)", "orders", "previous_first", "previous_last",
         "previous_revenue (EUR)", "previous_refunds (EUR)", "previous_orders"],
        ["2026-03-29", "2026-03-29", "50.00", "0.00", "2", "2026-03-27", "2026-03-27", "0.00", "0.00", "0"],
        ["2026-03-30", "2026-03-30", "50.00", "2.50", "2", "2026-03-28", "2026-03-28", "50.00", "0.00", "2"],
    ]  # fmt: skip
    assert downloaded(client, "over-time", "?to=2026-03-30")[1][5:] == ["", "", "", "", ""]
    assert downloaded(client, "statuses", days)[1:4] == [["pending", "0"], ["processing", "0"], ["complete", "4"]]
    assert downloaded(client, "shops", days) == [
        ["shop_id", "name", "revenue (EUR)", "refunds (EUR)", "orders"],
        [str(busy.shops[0].pk), "Corner", "50.00", "0.00", "2"],
        [str(busy.shops[1].pk), "Harbour", "50.00", "2.50", "2"],
    ]
    assert downloaded(client, "top-rated")[1] == [str(busy.products[0].pk), "Velmo lamp", "4.0", "2"]
    assert [row[1:] for row in downloaded(client, "low-stock")][:2] == [
        ["name", "sku", "shop", "left"], ["Velmo lamp", "", "Corner", "3"],
    ]  # fmt: skip
    assert visitor(busy, "owner").get(f"{DASHBOARD}accounts.csv").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_a_file_is_streamed_to_an_asynchronous_server():
    client = AsyncClient()
    client.force_login(make_user(Role.SUPER_ADMIN))

    async def fetched() -> tuple[str, bytes]:
        answer: Any = await client.get(f"{DASHBOARD}shops.csv?from=2026-03-01&to=2026-03-02")
        assert answer.is_async
        return answer.headers["Content-Disposition"], b"".join([piece async for piece in answer.streaming_content])

    name, body = async_to_sync(fetched)()
    assert name == 'attachment; filename="shops-2026-03-01-2026-03-02.csv"'
    assert body == "\ufeffshop_id,name,revenue (EUR),refunds (EUR),orders\r\n".encode()


def test_more_of_everything_costs_no_more_queries(market: Market, now: datetime):
    clients = {name: visitor(market, name) for name in market.clients}
    queries = ("", "?from=2026-01-01", "?from=2000-01-01")

    def counted() -> list[int]:
        numbers = []
        for client in clients.values():
            for query in queries:
                with CaptureQueriesContext(connection) as counting:
                    shown(client, query)
                numbers.append(len(counting))
        return numbers

    def grow(number: int) -> None:
        make_order(market.customers[number % 2], market.products, at=now - timedelta(days=number))
        for product in market.products:
            review(make_user(Role.CUSTOMER, f"{number}-{product.pk}"), product)
        Product.objects.update(quantity=3)
        services.fold(now=now)

    grow(0)
    grow(1)
    before = counted()
    for number in range(2, 6):
        grow(number)
    assert counted() == before
    assert max(before) <= 45
