"""The analytics endpoints: values, access, parameters and caching."""

from datetime import UTC, date, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.models import RollupState, SalesReport
from commerce.catalog.models import Category, Product
from commerce.orders.models import Order
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.analytics.factories import (
    Market,
    assert_analytics_correct,
    get_json,
    make_market,
    make_order,
    make_refund,
)
from tests.commerce.conftest import bearer, make_user
from tests.commerce.databases import at_most_values
from tests.commerce.orders.factories import make_goods
from tests.commerce.reviews.factories import review

STATUSES = {
    "pending": 0, "processing": 0, "complete": 0, "cancelled": 0, "refunded": 0, "failed": 0, "localFacility": 0,
    "outForDelivery": 0,
}  # fmt: skip
EMPTY = {
    "totalRevenue": 0, "totalRefunds": 0, "totalShops": 3, "totalVendors": 2, "todaysRevenue": 0, "totalOrders": 0,
    "newCustomers": 2, "averageOrderValue": 0, "placedRevenue": 0, "returningCustomerRate": 0, "pending": False,
    "asOf": "2026-03-30T10:30:00.000000Z", "todayTotalOrderByStatus": STATUSES,
    "weeklyTotalOrderByStatus": STATUSES, "monthlyTotalOrderByStatus": STATUSES,
    "yearlyTotalOrderByStatus": STATUSES, "currency": "EUR", "currencies": [],
    "totalYearSaleByMonth": [{"month": month, "total": 0} for month in (
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    )],
}  # fmt: skip


def test_a_shop_without_orders_has_zeros(market: Market):
    assert get_json(market.clients["platform"], "analytics") == EMPTY
    assert get_json(market.clients["owner"], "analytics") == EMPTY | {
        "totalShops": 2, "totalVendors": 0, "newCustomers": 0,
    }  # fmt: skip
    for path in ("category-wise-product-sale", "top-rate-product", "low-stock-products"):
        assert get_json(market.clients["platform"], path) == []


def test_everyone_reads_their_own_scope(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:4], at=now)  # two shops of one owner, two products each
    make_order(market.customers[1], market.products[4:], at=now - timedelta(days=8), status="pending")
    make_refund(Order.objects.filter(shop=market.shops[1]).get(), 250, at=now)

    platform, owner, staff, other = (
        get_json(market.clients[name], "analytics") for name in ("platform", "owner", "staff", "other")
    )
    assert (platform["totalRevenue"], platform["todaysRevenue"], platform["totalOrders"]) == (54.9, 54.9, 2)
    assert (owner["totalRevenue"], owner["totalOrders"], owner["newCustomers"]) == (50.0, 2, 1)
    assert (staff["totalRevenue"], staff["totalOrders"], staff["totalRefunds"]) == (25.0, 1, 2.5)
    assert (other["totalRevenue"], other["totalOrders"], other["totalShops"]) == (0, 1, 1)
    assert platform["totalYearSaleByMonth"][2] == {"month": "March", "total": 54.9}
    assert platform["monthlyTotalOrderByStatus"] == STATUSES | {"complete": 1, "pending": 1}
    assert platform["weeklyTotalOrderByStatus"] == STATUSES | {"complete": 1}


def test_one_shop_is_readable_by_its_owner_staff_and_the_platform(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:4], at=now)
    first, second, third = (shop.pk for shop in market.shops)

    assert get_json(market.clients["owner"], f"analytics?shop_id={first}")["totalRevenue"] == 25.0
    assert get_json(market.clients["platform"], f"analytics?shop_id={second}")["totalRevenue"] == 25.0
    for path in ("analytics", "category-wise-product", "category-wise-product-sale", "top-rate-product"):
        assert market.clients["owner"].get(f"/api/{path}?shop_id={third}").status_code == 404
        assert market.clients["staff"].get(f"/api/{path}?shop_id={first}").status_code == 404
        assert market.clients["owner"].get(f"/api/{path}?shop_id=one").status_code == 422


def test_owners_and_staff_without_a_shop_read_zeros(market: Market, now: datetime):
    make_order(market.customers[0], market.products, at=now)
    for role in (Role.STAFF, Role.STORE_OWNER):
        client = Client(headers=bearer(make_user(role, "new")))
        assert get_json(client, "analytics")["totalOrders"] == 0
        assert get_json(client, "category-wise-product") == []
        assert get_json(client, "category-wise-product-sale") == []


@pytest.mark.parametrize(
    "path", ["analytics", "category-wise-product", "category-wise-product-sale", "top-rate-product"]
)
def test_customers_are_refused(market: Market, path: str):
    assert Client(headers=bearer(market.customers[0])).get(f"/api/{path}").status_code == 403
    assert Client().get(f"/api/{path}").status_code == 401


def test_a_date_range_is_compared_with_the_days_before_it(market: Market, now: datetime):
    for days in (1, 2, 3, 40):
        make_order(market.customers[days % 2], market.products[:4], at=now - timedelta(days=days))
    query = "from=2026-03-28&to=2026-03-29&compare=previous"

    body = get_json(market.clients["platform"], f"analytics?{query}")
    assert (body["from"], body["to"], body["totalOrders"], body["totalRevenue"]) == (
        "2026-03-28",
        "2026-03-29",
        2,
        109.8,
    )
    assert body["previous"] == {
        "from": "2026-03-26", "to": "2026-03-27", "totalOrders": 1, "totalRevenue": 54.9, "totalRefunds": 0,
        "newCustomers": 0, "averageOrderValue": 54.9, "placedRevenue": 54.9,
    }  # fmt: skip
    first, last = date(2026, 3, 28), date(2026, 3, 29)
    assert_analytics_correct(market, now, query=f"&{query}", first=first, last=last, compare=True)


@pytest.mark.parametrize(
    ("first", "last"),
    [(date(2026, 1, 1), date(2026, 3, 30)), (date(2026, 1, 31), date(2026, 3, 1)),
     (date(2025, 12, 2), date(2026, 1, 30)), (date(2026, 2, 1), date(2026, 2, 28)),
     (date(2026, 3, 30), date(2026, 3, 30)), (date(2024, 2, 29), None), (None, date(2026, 2, 28))],
)  # fmt: skip
def test_a_date_range_sums_whole_months_and_the_days_around_them(
    market: Market, now: datetime, first: date | None, last: date | None
):
    for number in range(30):
        at = now - timedelta(days=5 * number)
        make_order(market.customers[number % 2], market.products[number % 6 :], at=at, status="complete")
    days = {"from": first, "to": last}
    query = "".join(f"&{name}={day}" for name, day in days.items() if day)

    assert_analytics_correct(market, now, query=query, first=first, last=last)


@pytest.mark.parametrize(
    ("query", "field"),
    [("from=yesterday", "from"), ("to=2026-02-30", "to"), ("from=1999-12-31", "from"), ("to=2100-01-01", "to"),
     ("from=2026-03-02&to=2026-03-01", "to"), ("compare=next&from=2026-01-01", "compare"),
     ("compare=previous", "compare"), ("currency=eur", "currency"), ("currency=EURO", "currency"),
     ("shop_id=x", "shop_id"), ("from=20260301", "from")],
)  # fmt: skip
def test_invalid_parameters_are_refused(market: Market, query: str, field: str):
    answer = market.clients["platform"].get(f"/api/analytics?{query}")

    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]


def test_currencies_are_never_summed(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:1], at=now)
    make_order(market.customers[0], market.products[:1], at=now, currency="USD")
    make_order(market.customers[0], market.products[:1], at=now, currency="JPY", status="pending")

    body = get_json(market.clients["platform"], "analytics")
    assert (body["totalRevenue"], body["totalOrders"], body["currency"], body["currencies"]) == (
        17.4, 1, "EUR", ["JPY", "USD"],
    )  # fmt: skip
    assert get_json(market.clients["platform"], "analytics?currency=USD")["currencies"] == ["EUR", "JPY"]
    yen = get_json(market.clients["owner"], "analytics?currency=JPY")
    assert (yen["totalOrders"], yen["totalRevenue"], yen["totalYearSaleByMonth"][0]["total"]) == (1, 0, 0)


@pytest.mark.parametrize(
    ("zone", "at", "today"),
    [
        # New York switches to summer time on 8 March 2026: that day has 23 hours.
        ("America/New_York", "2026-03-08T04:59:59.999999", False),
        ("America/New_York", "2026-03-08T05:00:00", True),
        ("America/New_York", "2026-03-09T03:59:59.999999", True),
        ("America/New_York", "2026-03-09T04:00:00", False),
        # It switches back on 1 November 2026: that day has 25 hours.
        ("America/New_York", "2026-11-01T04:00:00", True),
        ("America/New_York", "2026-11-02T04:59:59.999999", True),
        ("America/New_York", "2026-11-02T05:00:00", False),
        # Lord Howe's summer time shifts by half an hour.
        ("Australia/Lord_Howe", "2026-04-04T13:00:00", True),
        ("Australia/Lord_Howe", "2026-04-04T12:59:59.999999", False),
        ("Australia/Lord_Howe", "2026-04-05T13:29:59.999999", True),
        ("Australia/Lord_Howe", "2026-04-05T13:30:00", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_aggregated", [False, True], ids=["waiting", "aggregated"])
def test_a_day_begins_at_midnight_of_the_reporting_time_zone(
    db: None, settings: Settings, zone: str, at: str, today: bool, is_aggregated: bool
):
    settings.ANALYTICS_TIME_ZONE = zone
    noon = {"2026-03": datetime(2026, 3, 8, 16, tzinfo=UTC), "2026-11": datetime(2026, 11, 1, 17, tzinfo=UTC)}
    now = noon.get(at[:7], datetime(2026, 4, 5, 2, tzinfo=UTC))
    with time_machine.travel(now, tick=False):
        RollupState.objects.update(time_zone=zone)
        market = make_market()
        make_order(market.customers[0], market.products[:1], at=datetime.fromisoformat(at).replace(tzinfo=UTC))
        if is_aggregated:
            aggregate_ledger(now=now)
        body = get_json(market.clients["platform"], "analytics")

    assert body["todayTotalOrderByStatus"]["complete"] == today
    assert body["todaysRevenue"] == (17.4 if today else 0)
    assert body["totalRevenue"] == 17.4


def test_a_customer_is_new_to_an_owner_who_joined_lately_with_the_first_order_from_any_shop(
    market: Market, now: datetime
):
    ada, grace = market.customers
    make_order(ada, market.products[:1], at=now - timedelta(days=60))
    make_order(ada, market.products[2:3], at=now)  # the owner's other shop
    make_order(grace, market.products[:4], at=now)

    make_order(make_user(Role.STAFF, "buyer"), market.products[:4], at=now)

    for is_aggregated in (False, True):
        if is_aggregated:
            aggregate_ledger(now=now)
        assert get_json(market.clients["owner"], "analytics")["newCustomers"] == 1
        assert get_json(market.clients["staff"], "analytics")["newCustomers"] == 2
        assert get_json(market.clients["owner"], "analytics?from=2026-01-01&to=2026-02-01")["newCustomers"] == 0
    User.objects.filter(pk=ada.pk).update(created_at=now - timedelta(days=61))
    assert get_json(market.clients["owner"], "analytics?from=2026-01-01&to=2026-02-01")["newCustomers"] == 1
    User.objects.filter(pk=grace.pk).update(created_at=now - timedelta(days=31))
    for name in ("platform", "owner", "staff"):
        assert get_json(market.clients[name], "analytics")["newCustomers"] == 0


def test_the_average_order_value_is_the_revenue_of_a_complete_order(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:1], at=now)  # 12.50 and a fee of 4.90
    make_order(market.customers[1], market.products[:2], at=now)
    make_order(market.customers[1], market.products[:3], at=now, status="pending")

    for is_aggregated in (False, True):
        if is_aggregated:
            aggregate_ledger(now=now)
        assert get_json(market.clients["platform"], "analytics")["averageOrderValue"] == 23.65  # (17.40 + 29.90) / 2
        assert get_json(market.clients["owner"], "analytics")["averageOrderValue"] == 18.75  # (12.50 + 25.00) / 2
    goods = F("total") - F("sales_tax") - F("delivery_fee")
    Order.objects.filter(parent=None).update(sales_tax=0, delivery_fee=0, total=goods, paid_total=goods)
    for total in (1, 2):  # of both complete orders, then of one: 1.5 cents are rounded up
        SalesReport.objects.all().delete()
        ids = Order.objects.filter(shop=market.shops[0]).order_by("pk").values_list("pk", flat=True)[: 3 - total]
        Order.objects.filter(pk__in=list(ids)).update(total=total, amount=total, paid_total=total)
        for name in ("platform", "owner"):
            assert get_json(market.clients[name], "analytics")["averageOrderValue"] == total / 100


@pytest.mark.parametrize(
    "path",
    ["analytics", "low-stock-products", "category-wise-product", "category-wise-product-sale", "top-rate-product"],
)  # fmt: skip
def test_an_unchanged_response_is_not_sent_again(market: Market, now: datetime, path: str):
    client = market.clients["owner"]
    answer = client.get(f"/api/{path}")
    etag = answer.headers["ETag"]
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert "Authorization" in answer.headers["Vary"]
    again = client.get(f"/api/{path}", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")

    make_order(market.customers[0], market.products, at=now)
    Product.objects.update(quantity=1)
    review(market.customers[0], market.products[0], rating=4)
    market.products[0].categories.clear()
    changed = client.get(f"/api/{path}", headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != etag
    assert market.clients["other"].get(f"/api/{path}").headers["ETag"] != changed.headers["ETag"]


def count_queries(client: Client, path: str) -> int:
    get_json(client, path)  # the first request stores when the key was used
    with CaptureQueriesContext(connection) as counted:
        get_json(client, path)
    return len(counted)


@pytest.mark.no_database
@pytest.mark.parametrize(
    "path",
    ["analytics", "analytics?from=2026-01-05&to=2026-03-20&compare=previous", "low-stock-products?with=type;shop",
     "category-wise-product", "category-wise-product-sale", "top-rate-product"],
)  # fmt: skip
@pytest.mark.parametrize("is_aggregated", [False, True], ids=["waiting", "aggregated"])
def test_more_data_needs_no_more_queries(market: Market, now: datetime, path: str, is_aggregated: bool):
    def grow(number: int) -> None:
        make_order(market.customers[number % 2], market.products, at=now - timedelta(days=number))
        for product in market.products:
            review(make_user(Role.CUSTOMER, f"{number}-{product.pk}"), product)
        Product.objects.update(quantity=3)
        if is_aggregated:
            aggregate_ledger(now=now)

    for number in range(2):
        grow(number)
    before = {name: count_queries(client, path) for name, client in market.clients.items()}
    for number in range(2, 6):
        grow(number)
    assert {name: count_queries(client, path) for name, client in market.clients.items()} == before


def test_more_rows_may_wait_than_a_statement_takes_parameters(market: Market, now: datetime):
    """Customers with orders from both shops of an owner, and reviews of many products, wait for aggregation."""
    for number in range(60):
        customer = make_user(Role.CUSTOMER, f"customer-{number}")
        make_order(customer, market.products[::2], at=now)
        review(customer, make_goods(market.shops[0], f"goods-{number}"), rating=3)

    with at_most_values(50):
        for name in ("owner", "other"):
            assert get_json(market.clients[name], "analytics")["newCustomers"] == 60
        for name in ("owner", "platform"):
            assert [row["rating_count"] for row in get_json(market.clients[name], "top-rate-product?limit=1")] == [1]


def test_top_rated_products_have_the_fields_of_a_product_card(market: Market):
    lamp, stool = market.products[0], market.products[2]
    for user in market.customers:
        review(user, lamp, rating=4)
    review(market.customers[0], stool, rating=4)

    best, second = get_json(market.clients["platform"], "top-rate-product")
    assert best == {
        "id": lamp.pk, "name": "Velmo lamp", "slug": lamp.slug, "description": "", "type_slug": "home",
        "product_type": "simple", "price": 12.5, "sale_price": None, "min_price": 12.5, "max_price": 12.5,
        "image": None, "actual_rating": 4.0, "rating_count": 2, "total_rating": 8,
    }  # fmt: skip
    assert second["id"] == stool.pk
    assert [row["id"] for row in get_json(market.clients["staff"], "top-rate-product?limit=1")] == [stool.pk]


def test_categories_are_of_one_language(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:1], at=now)
    german = Category.objects.create(name="Lampen", slug="lamps", language="de", type=market.products[0].type)
    german.products.add(market.products[0])

    for path, counts in (
        ("category-wise-product", {"product_count": 1}),
        ("category-wise-product-sale", {"total_sales": 1, "total_revenue": 1.0}),
    ):
        assert get_json(market.clients["platform"], f"{path}?language=de") == [
            {"category_id": german.pk, "category_name": "Lampen", "shop_name": "Corner", **counts}
        ]
        assert len(get_json(market.clients["platform"], f"{path}?limit=1")) == 1


def test_without_a_limit_there_are_ten_products_and_fifteen_categories(market: Market, now: datetime):
    more = [make_goods(market.shops[0], f"more-{number}", quantity=3) for number in range(20)]
    for product in more:
        category = Category.objects.create(name=product.name, slug=f"category-{product.slug}", type=product.type)
        category.products.add(product)
        review(market.customers[0], product, rating=4)
    make_order(market.customers[0], more, at=now)

    for path, default in (
        ("low-stock-products", 10),
        ("top-rate-product", 10),
        ("category-wise-product", 15),
        ("category-wise-product-sale", 15),
    ):
        assert len(get_json(market.clients["platform"], path)) == default, path
        assert len(get_json(market.clients["platform"], f"{path}?limit=20")) == 20, path


@pytest.mark.parametrize("is_aggregated", [False, True], ids=["waiting", "aggregated"])
def test_top_rated_products_are_of_one_language(market: Market, now: datetime, is_aggregated: bool):
    german = make_goods(market.shops[0], "lampe", language="de")
    for product in (german, market.products[0]):
        review(market.customers[0], product, rating=4)
    if is_aggregated:
        aggregate_ledger(now=now)

    for query, expected in (("", market.products[0]), ("?language=en", market.products[0]), ("?language=de", german)):
        rows = get_json(market.clients["platform"], f"top-rate-product{query}")
        assert [row["id"] for row in rows] == [expected.pk], query


def test_low_stock_lists_products_below_ten_units_lowest_first(market: Market):
    for product, quantity in zip(market.products, (9, 10, 0, 3, 2, 100), strict=True):
        Product.objects.filter(pk=product.pk).update(quantity=quantity)
    lamp, _, stool, chair, other, _ = (product.pk for product in market.products)

    def ids(name: str, query: str = "") -> list[int]:
        return [row["id"] for row in get_json(market.clients[name], f"low-stock-products{query}")]

    assert ids("platform") == [stool, other, chair, lamp]
    assert ids("owner") == [stool, chair, lamp]
    assert ids("owner", f"?shop_id={market.shops[1].pk}&limit=1") == [stool]
    assert ids("owner", "?type_id=0") == ids("owner", "?language=de") == []
    body = get_json(market.clients["staff"], "low-stock-products?with=type;shop")
    assert [(row["shop"]["name"], row["type"]["slug"]) for row in body] == [("Harbour", "home")] * 2
    assert market.clients["owner"].get("/api/low-stock-products?limit=0").status_code == 422


def test_a_search_narrows_every_report_on_products(market: Market, now: datetime):
    lamp, _, stool, *_ = market.products
    seats = Category.objects.create(name="Seats", slug="seats", type=stool.type)
    seats.products.add(stool)
    make_order(market.customers[0], market.products[:4], at=now)
    Product.objects.update(quantity=3)
    for product in (lamp, stool):
        review(market.customers[0], product, rating=4)
    platform = market.clients["platform"]

    for path, name in (("category-wise-product", "product_count"), ("category-wise-product-sale", "total_sales")):
        found = get_json(platform, f"{path}?search=name:x;categories.slug:seats;type.slug:home&searchJoin=or")
        assert {row["shop_name"] for row in found} == {row["shop_name"] for row in get_json(platform, path)}
        rows = get_json(platform, f"{path}?search=shop_id:{stool.shop_id};slug:{stool.slug}&searchJoin=and")
        assert {(row["category_name"], row[name]) for row in rows} >= {("Seats", 1)}
        assert {row["shop_name"] for row in rows} == {stool.shop.name}
        assert get_json(platform, f"{path}?search=slug:nothing") == get_json(platform, f"{path}?search=id:x") == []
    for path in ("top-rate-product", "low-stock-products"):
        assert [row["id"] for row in get_json(platform, f"{path}?search=slug:{stool.slug}")] == [stool.pk]
        assert get_json(platform, f"{path}?search=price:100000,") == []
        assert get_json(platform, f"{path}?search=unknown:1") == get_json(platform, path)
    assert platform.get("/api/top-rate-product?search=slug:x&searchJoin=xor").status_code == 422
