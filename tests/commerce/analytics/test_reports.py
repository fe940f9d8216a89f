"""The reads of which the dashboard and the CSV files are made."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from commerce.analytics import goods, reports, scopes, services
from commerce.analytics.calendars import Span, last_days
from commerce.analytics.dashboard_figures import Period
from commerce.analytics.spreadsheets import csv_rows
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from tests.commerce.analytics.market import Market, make_order


@pytest.fixture
def report(market: Market, now: datetime) -> Callable[..., reports.Report]:
    def of(user: User, **asked: Any) -> reports.Report:
        return reports.Report(scopes.scope_of(user, **asked), now=now)

    return of


def test_a_series_has_a_point_for_each_day_and_month(
    market: Market, now: datetime, report: Callable[..., reports.Report]
):
    make_order(market.customers[0], market.products[:4], at=now)
    make_order(market.customers[0], market.products[:2], at=now - timedelta(days=31))
    services.fold(now=now)
    of_owner = report(market.shops[0].owner)

    days = of_owner.series(last_days(3, of_owner.today))
    assert [(str(point.starts_on), point.revenue, point.orders) for point in days] == [
        ("2026-03-28", 0, 0), ("2026-03-29", 0, 0), ("2026-03-30", 5000, 2),
    ]  # fmt: skip
    months = of_owner.series(Span(date(2026, 1, 15), of_owner.today), by="month")
    assert [(str(point.starts_on), point.revenue) for point in months] == [
        ("2026-01-01", 0), ("2026-02-01", 2500), ("2026-03-01", 5000),
    ]  # fmt: skip
    long = of_owner.series(Span(date(2026, 2, 1), date(2026, 3, 31)))
    assert (len(long), sum(point.revenue for point in long)) == (59, 7500)


def test_shops_are_ranked_by_what_they_sold(market: Market, now: datetime, report: Callable[..., reports.Report]):
    make_order(market.customers[0], [market.products[0], *market.products[2:4]], at=now)
    services.fold(now=now)
    make_order(market.customers[0], market.products[4:5], at=now, status="pending")
    span = last_days(7, now.date())

    ranked = report(User.objects.get(role="SUPER_ADMIN")).by_shop(span, limit=10)
    assert [(shop.name, shop.revenue, shop.orders) for shop in ranked] == [
        ("Harbour", 2500, 1), ("Corner", 1250, 1), ("Other", 0, 1),
    ]  # fmt: skip
    assert [shop.name for shop in report(market.shops[0].owner).by_shop(span, limit=1)] == ["Harbour"]
    assert report(market.shops[2].owner).sums(span).by_status["pending"] == 1


def test_sales_of_a_category_are_of_one_currency_when_asked(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:1], at=now, currency="USD")
    make_order(market.customers[0], market.products[1:2], at=now)

    def sales(currency: str | None) -> list[tuple[str, int]]:
        rows = goods.category_sales(shop_ids=None, language="en", limit=9, currency=currency)
        return [(row.category_name, row.count) for row in rows]

    assert sales("USD") == [
        ("Lamps", 1), ("Oak", 1),
    ]  # fmt: skip
    assert sales(None) == [("Oak", 2), ("Lamps", 1)]


def test_somebody_who_has_two_places_sees_the_one_of_their_role(market: Market, now: datetime):
    owner = market.shops[0].owner
    ShopStaff.objects.create(user=owner, shop=market.shops[2])

    assert scopes.scope_of(owner).shop_ids == tuple(Shop.objects.filter(owner=owner).values_list("pk", flat=True))


def test_figures_are_rows_of_a_csv_file_in_which_nothing_is_a_formula():
    period = Period(
        first=date(2026, 3, 29), last=date(2026, 3, 30), revenue=-1250, refunds=5, orders=-2,
        previous_first=date(2026, 3, 27), previous_last=date(2026, 3, 28), previous_orders=0,
    )  # fmt: skip
    assert list(csv_rows([period], Period, currency="EUR")) == [
        ["first", "last", "revenue (EUR)", "refunds (EUR)", "orders", "previous_first", "previous_last",
         "previous_revenue (EUR)", "previous_refunds (EUR)", "previous_orders"],
        ["2026-03-29", "2026-03-30", "-12.50", "0.05", "-2", "2026-03-27", "2026-03-28", "", "", "0"],
    ]  # fmt: skip
    shop = reports.ShopSums(shop_id=7, name="=HYPERLINK(1)", revenue=3, refunds=0, orders=-1)
    assert list(csv_rows([shop], reports.ShopSums, currency="JPY"))[1] == ["7", "'=HYPERLINK(1)", "3", "0", "-1"]
    shop = reports.ShopSums(shop_id=7, name="Oak;=1+1", revenue=3, refunds=0, orders=1)  # parted there by some
    assert list(csv_rows([shop], reports.ShopSums, currency="JPY"))[1] == ["7", "Oak;'=1+1", "3", "0", "1"]
    assert list(csv_rows([], goods.CategoryCount, currency="EUR")) == [
        ["category_id", "category_name", "shop_id", "shop_name", "count"]
    ]
