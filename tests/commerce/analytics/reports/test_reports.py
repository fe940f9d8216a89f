"""Reports, and their rows in CSV files."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from django.db.models import Q

from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.dashboard.csv_export import csv_rows
from commerce.analytics.dashboard.data import PeriodRow
from commerce.analytics.reports import products
from commerce.analytics.reports.date_ranges import DateRange, last_days
from commerce.analytics.reports.products import CategoryCount, count_sales_by_category
from commerce.analytics.reports.report import Report
from commerce.analytics.reports.results import ShopTotals
from commerce.analytics.reports.scopes import scope_for_user
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from tests.commerce.analytics.factories import Market, make_order


@pytest.fixture
def make_report(market: Market, now: datetime) -> Callable[..., Report]:
    def make(user: User, **options: Any) -> Report:
        return Report(scope_for_user(user, **options), now=now)

    return make


def test_a_series_has_a_point_for_each_day_and_month(market: Market, now: datetime, make_report: Callable[..., Report]):
    make_order(market.customers[0], market.products[:4], at=now)
    make_order(market.customers[0], market.products[:2], at=now - timedelta(days=31))
    aggregate_ledger(now=now)
    owner_report = make_report(market.shops[0].owner)

    days = owner_report.series(last_days(3, owner_report.today))
    assert [(str(point.starts_on), point.revenue, point.orders) for point in days] == [
        ("2026-03-28", 0, 0), ("2026-03-29", 0, 0), ("2026-03-30", 5000, 2),
    ]  # fmt: skip
    months = owner_report.series(DateRange(date(2026, 1, 15), owner_report.today), by="month")
    assert [(str(point.starts_on), point.revenue) for point in months] == [
        ("2026-01-01", 0), ("2026-02-01", 2500), ("2026-03-01", 5000),
    ]  # fmt: skip
    two_months = owner_report.series(DateRange(date(2026, 2, 1), date(2026, 3, 31)))
    assert (len(two_months), sum(point.revenue for point in two_months)) == (59, 7500)


def test_shops_are_ranked_by_revenue(market: Market, now: datetime, make_report: Callable[..., Report]):
    make_order(market.customers[0], [market.products[0], *market.products[2:4]], at=now)
    aggregate_ledger(now=now)
    make_order(market.customers[0], market.products[4:5], at=now, status="pending")
    span = last_days(7, now.date())

    ranked = make_report(User.objects.get(role="SUPER_ADMIN")).by_shop(span, limit=10)
    assert [(shop.name, shop.revenue, shop.orders) for shop in ranked] == [
        ("Harbour", 2500, 1), ("Corner", 1250, 1), ("Other", 0, 1),
    ]  # fmt: skip
    assert [shop.name for shop in make_report(market.shops[0].owner).by_shop(span, limit=1)] == ["Harbour"]
    assert make_report(market.shops[2].owner).totals(span).by_status["pending"] == 1


def test_category_sales_can_be_limited_to_one_currency(market: Market, now: datetime):
    make_order(market.customers[0], market.products[:1], at=now, currency="USD")
    make_order(market.customers[0], market.products[1:2], at=now)

    def sales(currency: str | None) -> list[tuple[str, int]]:
        rows = count_sales_by_category(shop_ids=None, language="en", limit=9, currency=currency)
        return [(row.category_name, row.count) for row in rows]

    assert sales("USD") == [
        ("Lamps", 1), ("Oak", 1),
    ]  # fmt: skip
    assert sales(None) == [("Oak", 2), ("Lamps", 1)]


def test_sales_by_category_that_took_long_are_reused(market: Market, now: datetime, monkeypatch: pytest.MonkeyPatch):
    def read(limit: int) -> list[CategoryCount]:
        return count_sales_by_category(shop_ids=None, language="en", limit=limit)

    monkeypatch.setattr(products, "REUSE_RATIO", 3600)
    monkeypatch.setattr(products, "MIN_REUSED_SECONDS", 3600)
    make_order(market.customers[0], market.products[:1], at=now)
    assert read(5)
    make_order(market.customers[0], market.products[:1], at=now)
    assert read(5)[0].count == 2  # it did not take long

    monkeypatch.setattr(products, "MIN_REUSED_SECONDS", 0)
    assert read(5)[0].count == 2
    make_order(market.customers[0], market.products[:1], at=now)
    assert [read(limit)[0].count for limit in (5, 6)] == [2, 3]
    assert count_sales_by_category(shop_ids=None, language="en", limit=5, matching=Q(slug__gt=""))[0].count == 3


def test_an_owner_who_is_also_staff_elsewhere_reads_their_own_shops(market: Market, now: datetime):
    owner = market.shops[0].owner
    ShopStaff.objects.create(user=owner, shop=market.shops[2])

    assert scope_for_user(owner).shop_ids == tuple(Shop.objects.filter(owner=owner).values_list("pk", flat=True))


def test_csv_rows_contain_no_formulas():
    period = PeriodRow(
        first=date(2026, 3, 29), last=date(2026, 3, 30), revenue=-1250, placed_revenue=-990,
        refunds=5, orders=-2,
        previous_first=date(2026, 3, 27), previous_last=date(2026, 3, 28), previous_orders=0,
    )  # fmt: skip
    assert list(csv_rows([period], PeriodRow, currency="EUR")) == [
        ["first", "last", "revenue (EUR)", "placed_revenue (EUR)", "refunds (EUR)", "orders", "previous_first",
         "previous_last", "previous_revenue (EUR)", "previous_placed_revenue (EUR)", "previous_refunds (EUR)",
         "previous_orders"],
        ["2026-03-29", "2026-03-30", "-12.50", "-9.90", "0.05", "-2", "2026-03-27", "2026-03-28", "", "", "", "0"],
    ]  # fmt: skip
    shop = ShopTotals(shop_id=7, name="=HYPERLINK(1)", revenue=3, refunds=0, orders=-1)
    assert list(csv_rows([shop], ShopTotals, currency="JPY"))[1] == ["7", "'=HYPERLINK(1)", "3", "0", "-1"]
    shop = ShopTotals(
        shop_id=7, name="Oak;=1+1", revenue=3, refunds=0, orders=1
    )  # some spreadsheets split cells at semicolons
    assert list(csv_rows([shop], ShopTotals, currency="JPY"))[1] == ["7", "Oak;'=1+1", "3", "0", "1"]
    assert list(csv_rows([], CategoryCount, currency="EUR")) == [
        ["category_id", "category_name", "shop_id", "shop_name", "count"]
    ]
