"""A market of three shops to test analytics with, and the check that all endpoints return the right values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.test import Client

from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.models import LedgerEntry, PeriodRollup, ProductRollup, RollupState, SalesReport
from commerce.analytics.reports.sales_figures import SalesFigures
from commerce.analytics.reports.sales_reports import read_sales_report
from commerce.catalog.models import Category, Product
from commerce.orders.models import Order, OrderLine, Refund
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.analytics.brute_force import BruteForce
from tests.commerce.conftest import bearer, make_user
from tests.commerce.orders.factories import make_goods


@dataclass
class Market:
    """Two shops of one owner and one of another, with two products each, customers, and an API client for each role."""

    shops: list[Shop]
    owners: list[User]
    customers: list[User]
    products: list[Product]
    clients: Mapping[str, Client]

    def scopes(self) -> dict[str, list[int] | None]:
        """Return the shops that each client reads; None is the whole platform."""
        owned = [list(Shop.objects.filter(owner=owner).values_list("pk", flat=True)) for owner in self.owners]
        return {"platform": None, "owner": owned[0], "staff": [self.shops[1].pk], "other": owned[1]}


def make_market() -> Market:
    owner, other, staff = make_user(Role.STORE_OWNER), make_user(Role.STORE_OWNER, "other"), make_user(Role.STAFF)
    shops = [
        Shop.objects.create(owner=owner, name="Corner", slug="corner"),
        Shop.objects.create(owner=owner, name="Harbour", slug="harbour"),
        Shop.objects.create(owner=other, name="Other", slug="other"),
    ]
    ShopStaff.objects.create(user=staff, shop=shops[1])
    products = [make_goods(shop, f"{shop.slug}-{name}") for shop in shops for name in ("lamp", "chair")]
    for name in ("Lamps", "Oak"):
        category = Category.objects.create(name=name, slug=name.lower(), type=products[0].type)
        category.products.set(products[::2] if name == "Lamps" else products)
    users = {"platform": make_user(Role.SUPER_ADMIN), "owner": owner, "staff": staff, "other": other}
    clients = {name: Client(headers=bearer(user)) for name, user in users.items()}
    customers = [make_user(Role.CUSTOMER, name) for name in ("ada", "grace")]
    return Market(shops, [owner, other], customers, products, clients)


def make_order(
    customer: User, products: list[Product], *, at: datetime, status: str = "complete", **fields: Any
) -> Order:
    """Create a parent order, and for each shop a child with a line for each of its products, bypassing the services."""
    common = {
        "customer": customer, "currency": "EUR", "order_status": status, "created_at": at, "updated_at": at,
    } | fields  # fmt: skip
    amount, fee = 1250 * len(products), 490
    parent = Order.objects.create(
        **common, amount=amount, delivery_fee=fee, total=amount + fee, paid_total=amount + fee
    )
    for shop in dict.fromkeys(product.shop for product in products):
        own = [product for product in products if product.shop == shop]
        total = 1250 * len(own)
        child = Order.objects.create(**common, parent=parent, shop=shop, amount=total, total=total, paid_total=total)
        for number, product in enumerate(own, 1):
            OrderLine.objects.create(
                order=child, product=product, quantity=number, unit_price=100, subtotal=100 * number
            )
    return parent


def make_refund(order: Order, amount: int, *, at: datetime, status: str = "approved") -> Refund:
    return Refund.objects.create(
        order=order, customer=order.customer, shop=order.shop, amount=amount, status=status, created_at=at,
        updated_at=at,
    )  # fmt: skip


def delete_order_tree(order: Order) -> None:
    for model, condition in (
        (Refund, {"order__in": order_tree_ids(order)}),
        (OrderLine, {"order__in": order_tree_ids(order)}),
    ):
        model.objects.filter(**condition).delete()
    order.children.all().delete()
    order.delete()


def order_tree_ids(order: Order) -> list[int]:
    return [order.pk, *order.children.values_list("pk", flat=True)]


def get_json(client: Client, path: str) -> Any:
    answer = client.get(f"/api/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def assert_analytics_correct(market: Market, now: datetime, *, query: str = "", **period: Any) -> None:
    """Assert that every endpoint returns to everyone what brute force computes, before and after aggregation."""
    SalesReport.objects.all().delete()  # computed again by the first read
    assert_rollups_correct(market, now, query=query, **period)
    _assert_product_lists_correct(market, now)
    assert_sales_reports_correct(market, now)


def assert_rollups_correct(market: Market, now: datetime, *, query: str = "", **period: Any) -> None:
    """Assert it of the endpoints that read rollups and ledger entries."""
    _assert_correct_now(market, now, query, period)
    if LedgerEntry.objects.exists():
        with transaction.atomic():
            aggregate_ledger(now=now)
            assert not LedgerEntry.objects.exists()
            _assert_correct_now(market, now, query, period)
            transaction.set_rollback(True)


def _assert_correct_now(market: Market, now: datetime, query: str, period: dict[str, Any]) -> None:
    zone = ZoneInfo(RollupState.objects.get().time_zone)
    for name, shop_ids in market.scopes().items():
        client, expected = market.clients[name], BruteForce(shop_ids, now=now, zone=zone)
        for currency in _currencies():
            expected.currency = currency
            path = f"analytics?currency={currency}{query}"
            body = get_json(client, path)
            assert body.pop("asOf")
            assert body == expected.overview(**period), (name, path)
        expected.currency = "EUR"
        assert get_json(client, "category-wise-product-sale") == expected.category_sales(), name
        rated = [
            (row["id"], row["actual_rating"], row["rating_count"], row["total_rating"])
            for row in get_json(client, "top-rate-product")
        ]
        assert rated == expected.top_rated(), name


def _assert_product_lists_correct(market: Market, now: datetime) -> None:
    """Assert that the lists that are read from the products, not from the figures, are right."""
    for name, shop_ids in market.scopes().items():
        client, expected = market.clients[name], BruteForce(shop_ids, now=now)
        assert get_json(client, "category-wise-product") == expected.category_products(), name
        low = [
            row.pk for row in sorted(expected.products(), key=lambda row: (row.quantity, row.pk)) if row.quantity < 10
        ]
        assert [row["id"] for row in get_json(client, "low-stock-products")] == low[:10], name


def _currencies() -> list[str]:
    """Return EUR and every other currency of an order or a figure."""
    models = (Order, LedgerEntry, PeriodRollup, ProductRollup)
    known = {currency for model in models for currency in model.objects.values_list("currency", flat=True).distinct()}
    return ["EUR", *sorted(known - {"EUR", ""})]


def assert_sales_reports_correct(market: Market, now: datetime) -> None:
    """Assert that the rankings of the stored sales reports are those of brute force in each currency."""
    for shop_ids in market.scopes().values():
        report = read_sales_report(shop_ids, now=now)
        assert report is not None
        for currency in _currencies():
            expected, figures = BruteForce(shop_ids, now=now, currency=currency), SalesFigures(report, currency)
            customers = [(row.customer_id, row.name, row.orders, row.revenue) for row in figures.top_customers(9)]
            assert customers == expected.top_customers()
            products = [(row.product_id, row.units, row.revenue) for row in figures.top_products("en", 9)]
            assert products == expected.top_products()
            values = [(row.value_id, row.units, row.revenue) for row in figures.by_attribute("en", 9)]
            assert values == expected.attribute_sales()


def run_sql(statement: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
