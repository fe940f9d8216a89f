"""Sales reports: what they say, who computes them and when, and who may read them."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from commerce.analytics import services, tasks
from commerce.analytics.models import RollupState, SalesReport
from commerce.analytics.reports import sales_reports
from commerce.analytics.reports.sales_reports import LIFETIME, RETENTION, RETRY_AFTER
from commerce.attributes.services import create_attribute
from commerce.catalog.models import Product, Variation, VariationValue
from commerce.orders.models import Order, OrderLine
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.personal_data.erasure import erase_person
from shared.accounts.roles import Role
from tests.commerce.analytics.factories import Market, get_json, make_order
from tests.commerce.conftest import bearer, make_user

RANKINGS = ("top-customers", "top-products", "attribute-wise-product-sale")
SECOND = timedelta(seconds=1)


@pytest.fixture
def without_immediate_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every report to a worker."""
    monkeypatch.setattr(sales_reports, "MAX_IMMEDIATE_ORDERS", -1)


def later(delay: timedelta) -> Any:
    return time_machine.travel(datetime.now().astimezone() + delay, tick=False)


def placed_revenue(market: Market, name: str = "platform") -> float | None:
    placed: float | None = get_json(market.clients[name], "analytics")["placedRevenue"]
    return placed


def test_placed_revenue_is_of_orders_in_every_status(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:4], at=now)  # 50.00 and a fee of 4.90
    for status in Order.Status.values:
        make_order(market.customers[1], market.products[:2], at=now - timedelta(days=40), status=status)
    make_order(market.customers[1], market.products[:2], at=now, currency="USD")

    platform = get_json(market.clients["platform"], "analytics")
    assert (platform["placedRevenue"], platform["totalRevenue"]) == (294.1, 84.8)  # eight orders of 29.90
    assert get_json(market.clients["owner"], "analytics")["placedRevenue"] == 50.0 + 200.0
    assert get_json(market.clients["staff"], "analytics")["placedRevenue"] == 25.0
    compared = get_json(market.clients["platform"], "analytics?from=2026-03-01&compare=previous")
    assert (compared["placedRevenue"], compared["previous"]["placedRevenue"]) == (54.9, 239.2)


def test_returning_customers_have_ordered_twice_in_any_status_and_currency(market: Market, now: datetime):
    ada, grace = market.customers
    make_order(ada, market.products[:4], at=now)  # one order from two shops of an owner
    make_order(grace, market.products[:2], at=now, status="failed")
    rates = {name: get_json(market.clients[name], "analytics")["returningCustomerRate"] for name in market.clients}
    assert rates == dict.fromkeys(rates, 0)

    SalesReport.objects.all().delete()
    make_order(ada, market.products[4:], at=now, currency="USD")
    make_order(make_user(Role.CUSTOMER, "third"), market.products[:2], at=now)
    make_order(grace, market.products[:1], at=now, status="pending")
    rates = {name: get_json(market.clients[name], "analytics")["returningCustomerRate"] for name in market.clients}
    assert rates == {"platform": 0.6667, "owner": 0.3333, "staff": 0, "other": 0}


def test_top_customers_have_their_orders_and_revenue(market: Market, now: datetime):
    ada, grace = market.customers
    make_order(ada, market.products[:4], at=now)
    make_order(ada, market.products[:1], at=now, status="pending")
    make_order(grace, market.products, at=now)

    body = get_json(market.clients["owner"], "top-customers")
    assert body == {
        "currency": "EUR", "as_of": "2026-03-30T10:30:00.000000Z", "pending": False,
        "data": [
            {"customer_id": ada.pk, "customer_name": ada.name, "total_orders": 2, "total_revenue": 50.0},
            {"customer_id": grace.pk, "customer_name": grace.name, "total_orders": 1, "total_revenue": 50.0},
        ],
    }  # fmt: skip
    assert [row["customer_id"] for row in get_json(market.clients["platform"], "top-customers?limit=1")["data"]] == [
        grace.pk
    ]
    assert get_json(market.clients["owner"], "top-customers?currency=USD")["data"] == []


def test_top_products_are_of_one_language_and_may_be_deleted(market: Market, now: datetime):
    lamp, chair, *others = market.products
    make_order(market.customers[0], [lamp, chair, *others], at=now)
    Product.objects.filter(pk=others[0].pk).update(language="de")
    Product.objects.filter(pk=chair.pk).update(deleted_at=now)

    best, second = get_json(market.clients["owner"], "top-products?limit=2")["data"]
    assert best == {
        "id": chair.pk, "name": chair.name, "slug": chair.slug, "shop_name": "Corner", "total_sales": 2,
        "total_revenue": 2.0,
    }  # fmt: skip
    assert (second["total_sales"], second["total_revenue"]) == (2, 2.0)
    german = get_json(market.clients["owner"], "top-products?language=de")["data"]
    assert [row["id"] for row in german] == [others[0].pk]
    assert get_json(market.clients["other"], "top-products?language=de")["data"] == []


def test_sales_by_attribute_are_of_the_variations_that_have_the_value(market: Market, now: datetime):
    lamp, chair = market.products[:2]
    values = [{"value": "Oak"}, {"value": "Pine"}]
    wood = create_attribute(actor=lamp.shop.owner, shop_id=lamp.shop_id, name="Wood", values=values, now=now)
    oak, pine = wood.values.order_by("pk")
    for value, units in ((oak, 2), (pine, 3)):
        make_order(market.customers[0], [lamp], at=now)
        variation = Variation.objects.create(product=lamp, title=value.value, price=100)
        VariationValue.objects.create(variation=variation, value=value)
        line = OrderLine.objects.latest("pk")
        OrderLine.objects.filter(pk=line.pk).update(variation=variation, quantity=units, subtotal=100 * units)
    make_order(market.customers[0], [lamp, chair], at=now)  # without variations

    rows = get_json(market.clients["owner"], "attribute-wise-product-sale")["data"]
    assert rows[0] == {
        "attribute_id": wood.pk, "attribute_name": "Wood", "value_id": pine.pk, "value": "Pine",
        "shop_name": "Corner", "total_sales": 3, "total_revenue": 3.0,
    }  # fmt: skip
    assert [(row["value"], row["total_sales"]) for row in rows] == [("Pine", 3), ("Oak", 2)]
    assert get_json(market.clients["owner"], "attribute-wise-product-sale?language=de")["data"] == []
    assert get_json(market.clients["staff"], "attribute-wise-product-sale")["data"] == []


def test_a_category_has_its_revenue_unless_a_search_narrows_it(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:4], at=now)
    make_order(market.customers[0], market.products[:1], at=now, currency="USD")
    platform = market.clients["platform"]

    def rows(query: str = "") -> list[tuple[str, str, int, float | None]]:
        names = ("category_name", "shop_name", "total_sales", "total_revenue")
        return [
            tuple(row[name] for name in names)  # type: ignore[misc]
            for row in get_json(platform, f"category-wise-product-sale{query}")
        ]

    assert rows("?currency=EUR") == [
        ("Oak", "Corner", 3, 3.0),
        ("Oak", "Harbour", 3, 3.0),
        ("Lamps", "Corner", 1, 1.0),
        ("Lamps", "Harbour", 1, 1.0),
    ]
    assert rows("?currency=USD") == [("Lamps", "Corner", 1, 1.0), ("Oak", "Corner", 1, 1.0)]
    assert rows("?search=slug:corner-lamp") == [("Lamps", "Corner", 2, None), ("Oak", "Corner", 2, None)]


@pytest.mark.usefixtures("without_immediate_reports")
def test_a_report_is_pending_until_the_task_has_computed_it(market: Market, now: datetime):
    make_order(market.customers[0], market.products, at=now)
    owner = market.clients["owner"]
    for _ in range(2):
        body = get_json(owner, "analytics")
        names = ("placedRevenue", "averageOrderValue", "returningCustomerRate", "asOf", "pending")
        assert [body[name] for name in names] == [None, None, None, None, True]
        assert body["totalRevenue"] == 50.0
        for path in RANKINGS:
            assert get_json(owner, path) == {"currency": "EUR", "as_of": None, "pending": True, "data": None}
        assert {row["total_revenue"] for row in get_json(owner, "category-wise-product-sale")} == {None}
    assert SalesReport.objects.count() == 1

    tasks.compute_requested_reports()
    body = get_json(owner, "analytics")
    assert (body["placedRevenue"], body["averageOrderValue"], body["pending"]) == (50.0, 25.0, False)
    assert get_json(owner, "top-customers")["data"][0]["total_revenue"] == 50.0
    assert SalesReport.objects.get().requested_at is None


@pytest.mark.usefixtures("without_immediate_reports")
def test_an_old_report_is_shown_until_a_new_one_is_computed(market: Market, now: datetime):
    placed_revenue(market)
    tasks.compute_requested_reports()
    make_order(market.customers[0], market.products[:1], at=now)
    with later(LIFETIME):
        assert placed_revenue(market) == 0
        assert SalesReport.objects.get().requested_at is None
    with later(LIFETIME + SECOND):
        assert placed_revenue(market) == 0
        body = get_json(market.clients["platform"], "analytics")
        assert (body["pending"], body["asOf"]) == (False, "2026-03-30T10:30:00.000000Z")
        tasks.compute_requested_reports()
        assert placed_revenue(market) == 17.4


def test_few_orders_are_computed_again_after_seconds_within_the_request(market: Market, now: datetime):
    assert placed_revenue(market) == 0
    make_order(market.customers[0], market.products[:1], at=now)
    with later(10 * SECOND):
        assert placed_revenue(market) == 0
    with later(11 * SECOND):
        assert placed_revenue(market) == 17.4
    SalesReport.objects.update(seconds=2.0)
    make_order(market.customers[0], market.products[:1], at=now)
    with later(51 * SECOND):  # 40 seconds after the last
        assert placed_revenue(market) == 17.4
    with later(52 * SECOND):
        assert placed_revenue(market) == 34.8


def test_a_report_of_more_orders_is_left_to_a_worker(market: Market, now: datetime, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sales_reports, "MAX_IMMEDIATE_ORDERS", 3)
    make_order(market.customers[0], market.products, at=now)  # four orders with its three children
    assert [placed_revenue(market, name) for name in ("platform", "owner", "other")] == [None, 50.0, 25.0]
    tasks.compute_requested_reports()
    assert placed_revenue(market) == 79.9


def test_a_locked_database_delays_no_read(market: Market, now: datetime, monkeypatch: pytest.MonkeyPatch):
    def locked(*args: Any, **options: Any) -> None:
        raise OperationalError("database is locked")

    make_order(market.customers[0], market.products[:1], at=now)
    monkeypatch.setattr(type(SalesReport.objects), "bulk_create", locked)
    assert placed_revenue(market) == 17.4
    monkeypatch.setattr(sales_reports, "MAX_IMMEDIATE_ORDERS", -1)
    assert placed_revenue(market) is None


@pytest.mark.usefixtures("without_immediate_reports")
def test_a_failed_computation_is_tried_again_much_later(market: Market, now: datetime, monkeypatch: pytest.MonkeyPatch):
    def fail(*args: Any, **options: Any) -> None:
        raise OperationalError("canceling statement")

    placed_revenue(market)
    with monkeypatch.context() as patch:
        patch.setattr(sales_reports, "compute_sales", fail)
        tasks.compute_requested_reports()
    tasks.compute_requested_reports()
    assert placed_revenue(market) is None
    with later(RETRY_AFTER + SECOND):
        tasks.compute_requested_reports()
        assert placed_revenue(market) == 0


def test_a_report_that_nobody_reads_is_deleted(market: Market):
    for name in ("platform", "owner"):
        placed_revenue(market, name)
    with later(RETENTION + SECOND):
        placed_revenue(market, "owner")
        services.reconcile_nightly(now=timezone.now().replace(hour=12))
    assert [report.shop_ids for report in SalesReport.objects.all()] == [[shop.pk for shop in market.shops[:2]]]


def test_another_time_zone_needs_another_report(market: Market, now: datetime, settings: Settings):
    make_order(market.customers[0], market.products[:1], at=now.replace(hour=22))
    assert get_json(market.clients["platform"], "analytics?from=2026-03-31&to=2026-03-31")["placedRevenue"] == 0
    settings.ANALYTICS_TIME_ZONE = "Asia/Kathmandu"
    RollupState.objects.update(time_zone="Asia/Kathmandu")
    assert get_json(market.clients["platform"], "analytics?from=2026-03-31&to=2026-03-31")["placedRevenue"] == 17.4


def test_an_owner_who_loses_a_shop_reads_nothing_of_it_at_once(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:4], at=now)
    assert placed_revenue(market, "owner") == 50.0
    Shop.objects.filter(pk=market.shops[1].pk).update(owner=market.owners[1])
    assert placed_revenue(market, "owner") == 25.0
    assert placed_revenue(market, "other") == 25.0


@pytest.mark.parametrize("path", RANKINGS)
def test_rankings_are_for_those_who_manage_the_shop(market: Market, now: datetime, path: str):
    make_order(market.customers[0], market.products[:4], at=now)
    first, second, third = (shop.pk for shop in market.shops)
    assert Client().get(f"/api/{path}").status_code == 401
    assert Client(headers=bearer(market.customers[0])).get(f"/api/{path}").status_code == 403
    for name, shop, status in (
        ("owner", third, 404), ("staff", first, 404), ("other", second, 404), ("staff", second, 200),
        ("platform", third, 200), ("owner", 10**12, 404),
    ):  # fmt: skip
        assert market.clients[name].get(f"/api/{path}?shop_id={shop}").status_code == status
    assert get_json(market.clients["other"], path)["data"] == []
    for query in ("shop_id=x", "currency=eur", "limit=0", "language=" + "x" * 99):
        expected = 200 if path == "top-customers" and query.startswith("language") else 422
        assert market.clients["owner"].get(f"/api/{path}?{query}").status_code == expected, query
    shopless = Client(headers=bearer(make_user(Role.STORE_OWNER, "new")))
    assert get_json(shopless, path)["data"] == []


def test_an_erased_customer_keeps_the_revenue_and_loses_the_name(market: Market, now: datetime):
    ada = market.customers[0]
    User.objects.filter(pk=ada.pk).update(name="Ada Lovelace")
    make_order(ada, market.products, at=now)
    [row] = get_json(market.clients["owner"], "top-customers")["data"]
    assert row["customer_name"] == "Ada Lovelace"
    assert ada.email not in market.clients["owner"].get("/api/top-customers").content.decode()

    erase_person(user=ada, actor=None, now=now)

    [row] = get_json(market.clients["owner"], "top-customers")["data"]
    assert (row["customer_name"], row["total_revenue"]) == ("Deleted customer", 50.0)
    stored = str(list(SalesReport.objects.values()))
    assert not [words for words in ("Ada", "Lovelace", "@", "Erased") if words in stored]


@pytest.mark.parametrize("path", RANKINGS)
def test_more_rows_need_no_more_queries(market: Market, now: datetime, path: str):
    def count(make: Callable[[], Any]) -> int:
        make()
        SalesReport.objects.all().delete()
        get_json(market.clients["platform"], path)
        with CaptureQueriesContext(connection) as queries:
            get_json(market.clients["platform"], path)
        return len(queries)

    few = count(lambda: make_order(market.customers[0], market.products[:1], at=now))
    assert count(lambda: [make_order(user, market.products, at=now) for user in market.customers]) == few
    assert few <= 6


def test_the_time_of_a_computation_is_kept(market: Market, now: datetime, monkeypatch: pytest.MonkeyPatch):
    ticks = iter([100.0, 103.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks, 103.5))
    sales_reports.read_sales_report(None, now=now)
    assert SalesReport.objects.get().seconds == 3.5
