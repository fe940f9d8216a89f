"""Pages and CSV files of the dashboard, compared with the API."""

import csv
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from commerce.analytics import tasks
from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.dashboard import views
from commerce.analytics.dashboard.panels import PENDING
from commerce.analytics.reports import sales_reports
from commerce.catalog.admin_money import format_money
from commerce.catalog.models import Category, Product
from commerce.orders.models import Order
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.analytics.factories import Market, get_json, make_order, make_refund
from tests.commerce.conftest import make_user
from tests.commerce.reviews.factories import review

DASHBOARD = "/admin/dashboard/"
TABLES = (
    "totals", "over-time", "statuses", "shops", "category-sales", "category-products", "top-rated", "low-stock",
    "attribute-sales", "top-products", "top-customers",
)  # fmt: skip
# The tables of one language: the API's list of the same rows, and the field with their names.
LANGUAGE_TABLES = {
    "category-sales": ("category-wise-product-sale", "category_name"),
    "category-products": ("category-wise-product", "category_name"),
    "top-rated": ("top-rate-product", "name"),
    "low-stock": ("low-stock-products", "name"),
}

pytestmark = pytest.mark.no_database


def browser_client(market: Market, name: str) -> Client:
    """Return a browser session of one of the users that `market.clients` has API clients of."""
    users = {
        "platform": User.objects.get(role=Role.SUPER_ADMIN),
        "owner": market.shops[0].owner,
        "staff": User.objects.get(role=Role.STAFF),
        "other": market.shops[2].owner,
    }
    client = Client(raise_request_exception=False)
    client.force_login(users[name])
    return client


def dashboard_context(client: Client, query: str = "") -> Any:
    answer = client.get(f"{DASHBOARD}{query}")
    assert answer.status_code == 200, answer.content
    return answer.context


def dashboard_html(client: Client, query: str = "") -> str:
    return client.get(f"{DASHBOARD}{query}").content.decode()


def download_csv(client: Client, table: str, query: str = "") -> list[list[str]]:
    answer = client.get(f"{DASHBOARD}{table}.csv{query}")
    assert answer.status_code == 200
    body = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    return list(csv.reader(body.splitlines()))


@pytest.fixture
def busy_market(market: Market, now: datetime) -> Market:
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
@pytest.mark.parametrize("is_aggregated", [False, True], ids=["waiting", "aggregated"])
@pytest.mark.parametrize("currency", ["EUR", "JPY"])
def test_the_page_shows_the_same_numbers_as_the_api(
    busy_market: Market, now: datetime, name: str, is_aggregated: bool, currency: str
):
    if is_aggregated:
        aggregate_ledger(now=now)
    days = f"?from=2026-03-01&to=2026-03-30&currency={currency}"
    api, page = (
        get_json(busy_market.clients[name], f"analytics{days}&compare=previous"),
        dashboard_context(browser_client(busy_market, name), days),
    )

    data, scale = page["data"], 1 if currency == "JPY" else 100
    totals, previous = data.totals, data.previous_totals
    for body, read in ((api, totals), (api["previous"], previous)):
        assert (read.revenue, read.refunds, read.orders, read.new_customers) == (
            round(body["totalRevenue"] * scale), round(body["totalRefunds"] * scale), body["totalOrders"],
            body["newCustomers"],
        )  # fmt: skip
    assert sum(column.revenue for column in data.over_time) == totals.revenue
    assert sum(column.orders for column in data.previous_over_time) == previous.orders
    tiles = {tile.name: tile for tile in page["tiles"]}
    assert tiles["Orders"].value == str(api["totalOrders"])
    assert (totals.placed_revenue, previous.placed_revenue) == (
        round(api["placedRevenue"] * scale), round(api["previous"]["placedRevenue"] * scale),
    )  # fmt: skip
    assert sum(column.placed_revenue for column in data.over_time) == totals.placed_revenue
    assert sum(row.placed_revenue for row in data.status_rows(99)) == totals.placed_revenue
    assert tiles["Returning customers"].value == f"{api['returningCustomerRate']:.1%}"
    assert page["currencies"] == sorted({"EUR", currency, *api["currencies"]})
    panels = {panel.name: panel for panel in page["panels"]}
    assert [(row.label, row.cells[1:]) for row in panels["category-sales"].rows] == [
        (row["category_name"], [str(row["total_sales"]), format_money(round(row["total_revenue"] * scale), currency)])
        for row in get_json(busy_market.clients[name], f"category-wise-product-sale?currency={currency}")
    ]
    for panel, path, label in (
        ("top-products", "top-products", "name"),
        ("top-customers", "top-customers", "customer_name"),
        ("attribute-sales", "attribute-wise-product-sale", "value"),
    ):
        rows = get_json(busy_market.clients[name], f"{path}?currency={currency}")["data"]
        assert [(row.label, row.cells[-1]) for row in panels[panel].rows] == [
            (row[label], format_money(round(row["total_revenue"] * scale), currency)) for row in rows
        ]
    assert [(row.label, row.cells) for row in panels["category-products"].rows] == [
        (row["category_name"], [row["shop_name"], str(row["product_count"])])
        for row in get_json(busy_market.clients[name], "category-wise-product")
    ]
    assert [row.cells for row in panels["top-rated"].rows] == [
        [f"{row['actual_rating']:.2f}", str(row["rating_count"])]
        for row in get_json(busy_market.clients[name], "top-rate-product")
    ]
    assert [(row.label, row.cells[2]) for row in panels["low-stock"].rows] == [
        (row["name"], str(row["quantity"])) for row in get_json(busy_market.clients[name], "low-stock-products")
    ]


def test_the_average_order_value_is_on_the_page_and_in_the_totals_file(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:1], at=now)  # 12.50 and a fee of 4.90
    make_order(market.customers[1], market.products[:2], at=now)
    make_order(market.customers[1], market.products[:3], at=now, status="pending")
    make_order(market.customers[1], market.products[:3], at=now - timedelta(days=3))
    platform, owner = browser_client(market, "platform"), browser_client(market, "owner")
    query = "?from=2026-03-28&to=2026-03-30"

    for is_aggregated in (False, True):
        if is_aggregated:
            aggregate_ledger(now=now)
        [tile] = [tile for tile in dashboard_context(platform, query)["tiles"] if tile.name == "Average order value"]
        assert (tile.value, tile.previous, tile.change) == ("23.65 EUR", "42.40 EUR", "-44.2%")
        [tile] = [tile for tile in dashboard_context(owner, query)["tiles"] if tile.name == "Average order value"]
        assert (tile.value, tile.previous) == ("18.75 EUR", "18.75 EUR")
        assert download_csv(platform, "totals", query)[1:] == [
            ["2026-03-28", "2026-03-30", "47.30", "89.70", "0.00", "3", "23.65", "2", "0.5"],
            ["2026-03-25", "2026-03-27", "42.40", "42.40", "0.00", "1", "42.40", "0", "0.5"],
        ]
        assert download_csv(owner, "totals", query) == [
            [
                "first",
                "last",
                "revenue (EUR)",
                "placed_revenue (EUR)",
                "refunds (EUR)",
                "orders",
                "average_order_value (EUR)",
                "new_customers",
                "returning_customer_rate",
            ],
            ["2026-03-28", "2026-03-30", "37.50", "75.00", "0.00", "4", "18.75", "1", "0.5"],
            ["2026-03-25", "2026-03-27", "37.50", "37.50", "0.00", "2", "18.75", "0", "0.5"],
        ]


CHOICE = '<select id="dash-language" name="language">'


def make_german(market: Market, *indexes: int) -> None:
    """Make these shops' products German and low in stock, and add a German category of them."""
    products = Product.objects.filter(shop__in=[market.shops[index] for index in indexes])
    products.update(language="de", name="Velmo Lampe", quantity=2)
    category = Category.objects.create(name="Lampen", slug="lamps", language="de", type=market.products[0].type)
    category.products.set(products)
    for product in products:
        review(market.customers[0], product, rating=3)


def table_labels(page: Any) -> dict[str, list[str]]:
    """Return the labels of the tables of one language."""
    return {panel.name: [row.label for row in panel.rows] for panel in page["panels"] if panel.table in LANGUAGE_TABLES}


def api_labels(market: Market, name: str, language: str) -> dict[str, list[str]]:
    return {
        table: [row[key] for row in get_json(market.clients[name], f"{path}?language={language}")]
        for table, (path, key) in LANGUAGE_TABLES.items()
    }


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("de", ("Umsatz", "Bestellungen nach Status", "vorher: ", "30. Mär", "Als Tabelle zeigen")),
        ("es", ("Ingresos", "Pedidos por estado", "antes: ", "30 Mar", "Mostrar como tabla")),
    ],
)
def test_the_page_is_in_the_language_of_the_browser(busy_market: Market, language: str, texts: Sequence[str]):
    page = browser_client(busy_market, "platform").get(DASHBOARD, headers={"Accept-Language": language}).text

    assert [text for text in texts if text not in page] == []
    assert [text for text in ("Revenue", "Orders", "Show", "Customers", "previous") if f">{text}" in page] == []


def test_a_shop_with_german_products_sees_german_tables(busy_market: Market):
    make_german(busy_market, 2)
    page = dashboard_context(browser_client(busy_market, "other"))

    assert (page["language"], page["languages"]) == ("de", ["de", "en"])
    assert table_labels(page) == api_labels(busy_market, "other", "de")
    assert all(table_labels(page).values())
    assert f"{CHOICE}<option selected>de</option><option>en</option>" in dashboard_html(
        browser_client(busy_market, "other")
    )
    assert download_csv(browser_client(busy_market, "other"), "low-stock")[1][3:] == ["Other", "2"]


def test_with_several_languages_the_tables_show_the_chosen_one(busy_market: Market):
    make_german(busy_market, 1)
    owner = browser_client(busy_market, "owner")

    for query, language in (("", "en"), ("?language=de", "de"), ("?language=fr", "fr")):
        assert dashboard_context(owner, query)["language"] == language
        assert table_labels(dashboard_context(owner, query)) == api_labels(busy_market, "owner", language)
        assert dashboard_html(owner, query).count(f"Language: {language}.") == 6
    page = dashboard_html(owner, "?language=fr")
    assert f"{CHOICE}<option>de</option><option>en</option><option selected>fr</option>" in page
    assert page.count("Nothing in this language.") == 6
    for words in ("No reviews yet.", "Nothing has been sold yet.", "No product is in", "Every product has"):
        assert words not in page


def test_without_english_products_the_most_frequent_language_is_shown(busy_market: Market):
    first, *others = busy_market.products[:4]
    Product.objects.filter(pk=first.pk).update(language="de")
    Product.objects.filter(pk__in=[product.pk for product in others]).update(language="fr")
    assert dashboard_context(browser_client(busy_market, "owner"))["language"] == "fr"
    assert dashboard_context(browser_client(busy_market, "owner"))["languages"] == ["de", "en", "fr"]
    assert dashboard_context(browser_client(busy_market, "platform"))["language"] == "en"


def test_languages_of_categories_can_be_chosen(busy_market: Market):
    Category.objects.update(language="de")
    without_products = {"name": "Lampes", "slug": "lamps", "language": "fr"}
    Category.objects.create(type=busy_market.products[0].type, **without_products)
    for name, languages in (("owner", ["de", "en"]), ("platform", ["de", "en", "fr"])):
        page = dashboard_context(browser_client(busy_market, name))
        assert (page["language"], page["languages"]) == ("en", languages)
        assert "Nothing has been sold yet." not in dashboard_html(browser_client(busy_market, name))
        of_german = {
            panel.table: panel.rows
            for panel in dashboard_context(browser_client(busy_market, name), "?language=de")["panels"]
        }
        assert of_german["category-sales"]
        assert of_german["category-products"]


def test_the_platform_offers_the_languages_of_all_products(busy_market: Market):
    german, deleted, *french = busy_market.products
    Product.objects.filter(pk=german.pk).update(language="de")
    Product.objects.filter(pk=deleted.pk).update(language="nl", deleted_at=timezone.now())
    Product.objects.filter(pk__in=[product.pk for product in french]).update(language="fr")
    Category.objects.update(language="sv")
    page = dashboard_context(browser_client(busy_market, "platform"))
    assert (page["language"], page["languages"]) == ("fr", ["de", "en", "fr", "sv"])
    Product.objects.update(deleted_at=timezone.now())
    page = dashboard_context(browser_client(busy_market, "platform"))
    assert (page["language"], page["languages"]) == ("en", ["en", "sv"])


def test_with_english_alone_there_is_no_language_choice(busy_market: Market):
    page = dashboard_html(browser_client(busy_market, "owner"), "?language=en")
    assert CHOICE not in page
    assert "Language:" not in page


@pytest.mark.parametrize("max_shops", [200, 2])
def test_every_link_keeps_the_language(busy_market: Market, monkeypatch: pytest.MonkeyPatch, max_shops: int):
    monkeypatch.setattr(views, "MAX_SHOP_CHOICES", max_shops)
    client = browser_client(busy_market, "platform")
    for query in ("?language=de", f"?language=de&shop_id={busy_market.shops[0].pk}"):
        page = dashboard_html(client, query)
        links = re.findall(r'(?:href|hx-get)="((?:/admin/dashboard/[^"?]*)?\?[^"]+)"', page)
        assert len(links) >= 7 + 7
        assert [link for link in links if "language=de" not in link] == []
    table = client.get(f"{DASHBOARD}shops/?language=de").content.decode()
    assert table.count("language=de") == table.count("?") == 4


def test_a_csv_file_has_the_rows_of_the_page(busy_market: Market):
    make_german(busy_market, 1, 2)
    client = browser_client(busy_market, "platform")
    panels = [panel for panel in dashboard_context(client, "?language=de")["panels"] if panel.table in LANGUAGE_TABLES]
    for panel in panels:
        link = re.search(rf'{panel.table}.csv(\?[^"]+)"', dashboard_html(client, "?language=de"))
        assert link is not None
        rows = download_csv(client, panel.table, link[1].replace("&amp;", "&"))
        assert [row[1] for row in rows[1:]] == [row.label for row in panel.rows]
        assert panel.rows


def test_a_form_with_an_error_keeps_the_other_values(busy_market: Market):
    shop = busy_market.shops[1].pk
    page = dashboard_html(browser_client(busy_market, "owner"), f"?language=de&currency=JPY&shop_id={shop}&from=soon")
    for name, value in (("language", "de"), ("currency", "JPY")):
        assert f'<input type="hidden" name="{name}" value="{value}">' in page
    assert re.findall(r'<option value="(\d*)" selected>', page) == [str(shop)]
    for name, value, words in (
        ("language", "x" * 17, "code of a language"),
        ("currency", "gold", "three capital letters"),
    ):
        page = dashboard_html(browser_client(busy_market, "owner"), f"?{name}={value}")
        assert words in page
        assert f'name="{name}"' not in page


def test_money_is_shown_with_its_currency_and_the_previous_period(busy_market: Market):
    page = dashboard_html(browser_client(busy_market, "owner"), "?from=2026-03-28&to=2026-03-30")

    assert "150.00 EUR" in page
    assert "2.50 EUR" in page
    assert "Revenue (EUR)" in page
    assert "28 Mar 2026 to 30 Mar 2026" in page
    assert "compared with 25 Mar 2026 to 27 Mar 2026" in page
    assert "<b>none before</b></dd>" in page
    assert "1,250 JPY" in dashboard_html(browser_client(busy_market, "owner"), "?currency=JPY")


def test_everyone_sees_their_shops_and_may_choose_one(busy_market: Market):
    first, second, third = (shop.pk for shop in busy_market.shops)

    def shops(name: str, query: str = "") -> list[str]:
        panels = dashboard_context(browser_client(busy_market, name), query)["panels"]
        return [row.label for panel in panels if panel.name == "shops" for row in panel.rows]

    assert sorted(shops("platform")) == ["Corner", "Harbour", "Other"]
    assert sorted(shops("owner")) == ["Corner", "Harbour"]
    assert shops("staff") == shops("other") == shops("owner", f"?shop_id={first}") == []
    assert dashboard_context(browser_client(busy_market, "owner"), f"?shop_id={first}")["shop_name"] == "Corner"
    assert dashboard_context(browser_client(busy_market, "staff"))["shop_choices"] == [(second, "Harbour")]
    for name, pk in (("owner", third), ("staff", first), ("other", second), ("platform", 10**9)):
        for path in (DASHBOARD, *(f"{DASHBOARD}{table}.csv" for table in TABLES)):
            assert browser_client(busy_market, name).get(f"{path}?shop_id={pk}").status_code == 404
    assert "Other" not in dashboard_html(browser_client(busy_market, "owner"))


def test_shops_link_to_their_dashboard_and_products_to_their_admin_page(busy_market: Market):
    lamp = busy_market.products[0].pk
    change = f"/admin/commerce_catalog/product/{lamp}/change/"

    assert change in dashboard_html(browser_client(busy_market, "platform"))
    assert change not in dashboard_html(browser_client(busy_market, "owner"))
    page = browser_client(busy_market, "owner")
    link = re.search(rf'href="/admin/dashboard/(\?shop_id={busy_market.shops[0].pk}&amp;[^"]+)"', dashboard_html(page))
    assert link is not None
    assert dashboard_context(page, link[1].replace("&amp;", "&"))["shop_id"] == busy_market.shops[0].pk


def test_with_many_shops_an_id_is_typed_and_the_table_loads_later(busy_market: Market, monkeypatch: pytest.MonkeyPatch):
    client, days = browser_client(busy_market, "platform"), "?from=2026-03-01&to=2026-03-30"
    expected = {panel.name: panel for panel in dashboard_context(client, days)["panels"]}["shops"]
    monkeypatch.setattr(views, "MAX_SHOP_CHOICES", 2)

    page = client.get(f"{DASHBOARD}{days}")
    assert "shops" not in [panel.name for panel in page.context["panels"]]
    assert 'type="number"' in page.content.decode()
    link = re.search(r'hx-get="/admin/dashboard/shops/(\?[^"]+)"', page.content.decode())
    assert link is not None
    table = client.get(f"{DASHBOARD}shops/{link[1].replace('&amp;', '&')}")
    assert table.context["panel"] == expected
    own_table = browser_client(busy_market, "owner").get(f"{DASHBOARD}shops/")
    assert [row.label for row in own_table.context["panel"].rows] == ["Corner", "Harbour"]
    assert (
        browser_client(busy_market, "owner").get(f"{DASHBOARD}shops/?shop_id={busy_market.shops[2].pk}").status_code
        == 404
    )


def test_only_super_admins_see_the_sidebar(busy_market: Market):
    assert 'id="nav-sidebar"' in dashboard_html(browser_client(busy_market, "platform"))
    page = dashboard_html(browser_client(busy_market, "owner"))
    assert "nav-sidebar" not in page
    assert "/admin/accounts/" not in page.replace("/admin/accounts/user/second-factor/", "")
    assert "Sign out" in page


@pytest.mark.parametrize("query", ["", "?from=2026-03-30&to=2026-03-30", "?from=2000-01-01&to=2099-12-31"])
def test_empty_panels_say_so(market: Market, query: str):
    Category.objects.all().delete()
    page = dashboard_html(browser_client(market, "other"), query)

    assert "<svg class" not in page
    assert page.count("No data in this period.") == 3
    for words in ("No orders in this period.", "Nothing has been sold yet.", "No product is in a category yet.",
                  "No reviews yet.", "0.00 EUR"):  # fmt: skip
        assert words in page


def test_placed_orders_that_are_not_complete_stand_shaded_on_the_revenue(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:2], at=now)
    make_order(market.customers[0], market.products[:1], at=now, status="pending")
    make_order(market.customers[0], market.products[:1], at=now - timedelta(days=1), status="processing")
    client = browser_client(market, "owner")

    revenue = dashboard_context(client, "?from=2026-03-29&to=2026-03-30")["charts"][0]
    assert [bar.text for bar in revenue.chart.bars] == ["30 Mar 2026: 25.00 EUR"]
    assert [bar.text for bar in revenue.chart.upper_bars] == [
        "29 Mar 2026: 12.50 EUR placed, not complete", "30 Mar 2026: 12.50 EUR placed, not complete",
    ]  # fmt: skip
    [bar], upper = revenue.chart.bars, revenue.chart.upper_bars[1]
    assert float(upper.y) + float(upper.height) == pytest.approx(float(bar.y), abs=0.1)
    assert [row.cells[:2] for row in revenue.rows] == [["0.00 EUR", "12.50 EUR"], ["25.00 EUR", "37.50 EUR"]]
    assert dashboard_html(client).count("placed, not complete") >= 3


def test_what_is_being_computed_says_so(market: Market, now: datetime, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sales_reports, "MAX_IMMEDIATE_ORDERS", -1)
    make_order(market.customers[0], market.products[:2], at=now)
    client = browser_client(market, "owner")

    page = dashboard_context(client)
    waiting = [tile.name for tile in page["tiles"] if tile.change == PENDING]
    assert waiting == ["Placed revenue", "Average order value", "Returning customers"]
    assert [panel.name for panel in page["panels"] if panel.empty == PENDING] == [
        "top-products", "top-customers", "attribute-sales",
    ]  # fmt: skip
    assert page["charts"][0].chart.upper_bars == []
    assert download_csv(client, "totals")[1][3] == ""
    for table in ("attribute-sales", "top-products", "top-customers"):
        answer = client.get(f"{DASHBOARD}{table}.csv")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")

    tasks.compute_requested_reports()
    assert str(PENDING) not in dashboard_html(client)
    assert download_csv(client, "top-customers")[1][3] == "25.00"


def test_owners_and_staff_without_a_shop_see_a_hint(market: Market):
    for role in (Role.STORE_OWNER, Role.STAFF):
        client = Client()
        client.force_login(make_user(role, "shopless"))
        assert "You have no shop yet" in dashboard_html(client)


def test_a_single_day_is_compared_with_the_day_before(busy_market: Market):
    page = dashboard_context(browser_client(busy_market, "owner"), "?from=2026-03-30&to=2026-03-30")
    revenue = page["charts"][0]

    assert (len(revenue.chart.bars), len(revenue.chart.marks), revenue.chart.line) == (1, 1, "")
    assert [(row.label, row.cells) for row in revenue.rows] == [
        ("30 Mar 2026", ["50.00 EUR", "50.00 EUR", "29 Mar 2026", "50.00 EUR", "50.00 EUR"])
    ]
    assert (
        dashboard_html(browser_client(busy_market, "owner"), "?from=2026-03-30&to=2026-03-30").count("<svg class") == 3
    )


@pytest.mark.parametrize(
    ("query", "unit", "columns"),
    [("?from=2026-01-01&to=2026-03-30", "week", 13), ("?from=2025-04-01&to=2026-03-31", "month", 12),
     ("?from=2000-01-01&to=2026-03-30", "week", 9)],
)  # fmt: skip
def test_long_periods_have_fewer_columns_with_the_same_totals(busy_market: Market, query: str, unit: str, columns: int):
    data = dashboard_context(browser_client(busy_market, "platform"), query)["data"]

    assert (data.columns.unit, len(data.over_time)) == (unit, columns)
    assert sum(column.revenue for column in data.over_time) == data.totals.revenue
    assert sum(column.orders for column in data.over_time) == 6


@pytest.mark.parametrize(
    ("query", "words"),
    [("?from=soon", "Send a date from"), ("?from=2026-03-02&to=2026-03-01", "not before"),
     ("?currency=euro", "three capital letters"), ("?shop_id=x", "whole number"),
     ("?from=%3Cscript%3E", "Send a date from")],
)  # fmt: skip
def test_invalid_queries_show_an_escaped_error_in_the_form(market: Market, query: str, words: str):
    answer = browser_client(market, "owner").get(f"{DASHBOARD}{query}")

    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert '<script>"' not in answer.content.decode()
    assert 'value="<script>' not in answer.content.decode()


def test_names_are_escaped_on_the_page_and_are_no_formulas_in_csv(busy_market: Market):
    evil = "=<img src=x onerror=alert(1)>\"'&"
    Shop.objects.filter(pk=busy_market.shops[0].pk).update(name=evil)
    Product.objects.filter(pk=busy_market.products[0].pk).update(name=evil, sku="@SUM(1)")
    Category.objects.update(name=evil)
    client = browser_client(busy_market, "platform")

    page = dashboard_html(client)
    assert "<img src=x" not in page
    assert page.count("=&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;") >= 4
    for table in ("shops", "category-sales", "category-products", "top-rated", "low-stock", "top-products"):
        cells = [cell for row in download_csv(client, table) for cell in row]
        assert f"'{evil}" in cells, table
        assert not [cell for cell in cells if cell[:1] in "=+@\t\r" and cell]


def test_csv_files_contain_exact_values(busy_market: Market):
    client, days = browser_client(busy_market, "owner"), "?from=2026-03-29&to=2026-03-30"

    assert download_csv(client, "over-time", days) == [
        ["first", "last", "revenue (EUR)", "placed_revenue (EUR)", "refunds (EUR)", "orders", "previous_first",
         "previous_last", "previous_revenue (EUR)", "previous_placed_revenue (EUR)", "previous_refunds (EUR)",
         "previous_orders"],
        ["2026-03-29", "2026-03-29", "50.00", "50.00", "0.00", "2", "2026-03-27", "2026-03-27", "0.00", "0.00", "0.00",
         "0"],
        ["2026-03-30", "2026-03-30", "50.00", "50.00", "2.50", "2", "2026-03-28", "2026-03-28", "50.00", "50.00",
         "0.00", "2"],
    ]  # fmt: skip
    assert download_csv(client, "over-time", "?to=2026-03-30")[1][6:] == [""] * 6
    assert download_csv(client, "statuses", days)[:4] == [
        ["status", "orders", "placed_revenue (EUR)"], ["pending", "0", "0.00"], ["processing", "0", "0.00"],
        ["complete", "4", "100.00"],
    ]  # fmt: skip
    customers = download_csv(client, "top-customers")
    assert customers[0] == ["customer_id", "name", "orders", "revenue (EUR)"]
    assert [row[2:] for row in customers[1:]] == [["3", "150.00"], ["2", "100.00"]]
    assert download_csv(client, "category-sales")[0] == [
        "category_id", "category_name", "shop_id", "shop_name", "count", "revenue (EUR)",
    ]  # fmt: skip
    assert download_csv(client, "shops", days) == [
        ["shop_id", "name", "revenue (EUR)", "refunds (EUR)", "orders"],
        [str(busy_market.shops[0].pk), "Corner", "50.00", "0.00", "2"],
        [str(busy_market.shops[1].pk), "Harbour", "50.00", "2.50", "2"],
    ]
    assert download_csv(client, "top-rated")[1] == [str(busy_market.products[0].pk), "Velmo lamp", "4.0", "2"]
    assert [row[1:] for row in download_csv(client, "low-stock")][:2] == [
        ["name", "sku", "shop", "left"], ["Velmo lamp", "", "Corner", "3"],
    ]  # fmt: skip
    assert browser_client(busy_market, "owner").get(f"{DASHBOARD}accounts.csv").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_csv_files_are_streamed_under_asgi():
    client = AsyncClient()
    client.force_login(make_user(Role.SUPER_ADMIN))

    async def fetched() -> tuple[str, bytes]:
        answer: Any = await client.get(f"{DASHBOARD}shops.csv?from=2026-03-01&to=2026-03-02")
        assert answer.is_async
        return answer.headers["Content-Disposition"], b"".join([piece async for piece in answer.streaming_content])

    name, body = async_to_sync(fetched)()
    assert name == 'attachment; filename="shops-2026-03-01-2026-03-02.csv"'
    assert body == "\ufeffshop_id,name,revenue (EUR),refunds (EUR),orders\r\n".encode()


def test_more_data_needs_no_more_queries(market: Market, now: datetime):
    clients = {name: browser_client(market, name) for name in market.clients}
    queries = ("", "?from=2026-01-01", "?from=2000-01-01")

    def counted() -> list[int]:
        numbers = []
        for client in clients.values():
            for query in queries:
                with CaptureQueriesContext(connection) as counting:
                    dashboard_context(client, query)
                numbers.append(len(counting))
        return numbers

    def grow(number: int) -> None:
        make_order(market.customers[number % 2], market.products, at=now - timedelta(days=number))
        for product in market.products:
            review(make_user(Role.CUSTOMER, f"{number}-{product.pk}"), product)
        Product.objects.update(quantity=3)
        aggregate_ledger(now=now)

    grow(0)
    grow(1)
    counted()  # the first reads compute the sales reports
    before = counted()
    for number in range(2, 6):
        grow(number)
    assert counted() == before
    assert max(before) <= 45
