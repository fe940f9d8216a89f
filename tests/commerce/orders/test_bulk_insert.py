"""Bulk insertion of past orders: rows and figures equal those of the services."""

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

import pytest
from django.db.models import Count, F, Model, Sum

from commerce.catalog.models import Product, Variation
from commerce.orders import bulk_insert
from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine, insert_orders
from commerce.orders.models import Order, OrderLine, Refund
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.orders.factories import buy, make_goods, make_variation, move, other_shop

pytestmark = pytest.mark.django_db

THEN = datetime(2025, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)


@pytest.fixture
def lamp(shop: Shop) -> Product:
    return make_goods(shop)


@pytest.fixture
def tent() -> Product:
    return make_goods(other_shop(), "tent", product_type=Product.Kind.VARIABLE)


@pytest.fixture
def small(tent: Product) -> Variation:
    return make_variation(tent)


@pytest.fixture
def past(customer: User, lamp: Product, tent: Product, small: Variation) -> Iterator[BulkOrder]:
    """Twenty-five orders: every fifth is cancelled by the first shop, every seventh refunded by the second."""

    def order(number: int) -> BulkOrder:
        lines = (
            BulkOrderLine(lamp.shop_id, lamp.pk, 2, 1250),
            BulkOrderLine(tent.shop_id, tent.pk, 1, 2000, small.pk),
            BulkOrderLine(lamp.shop_id, lamp.pk, 1, 1000),
        )
        statuses = {
            lamp.shop_id: "complete" if number % 5 else "cancelled",
            tent.shop_id: "complete" if number % 7 else "refunded",
        }
        return BulkOrder(customer.pk, THEN, "EUR", lines, statuses, sales_tax=100, delivery_fee=490)

    return (order(number) for number in range(25))


def insert(past: Iterator[BulkOrder]) -> list[int]:
    return list(insert_orders(past, random=Random(7)))


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (Order, bulk_insert.ORDER_COLUMNS),
        (OrderLine, ("id", *bulk_insert.LINE_COLUMNS)),
        (Refund, ("id", *bulk_insert.REFUND_COLUMNS)),
    ],
)
def test_every_column_of_the_model_is_inserted(model: type[Model], columns: tuple[str, ...]):
    assert sorted(columns) == sorted(field.column for field in model._meta.concrete_fields)


def test_every_order_tree_is_consistent(past: Iterator[BulkOrder], lamp: Product, tent: Product, customer: User):
    assert insert(past) == [25]

    parents, children = Order.objects.filter(parent=None), Order.objects.filter(shop__isnull=False)
    assert (parents.count(), children.count(), OrderLine.objects.count()) == (25, 50, 75)
    assert set(parents.values_list("amount", "total", "sales_tax", "delivery_fee")) == {(5500, 6090, 100, 490)}
    assert set(children.values_list("shop", "total")) == {(lamp.shop_id, 3500), (tent.shop_id, 2000)}
    assert set(Order.objects.values_list("created_at", "customer", "currency")) == {(THEN, customer.pk, "EUR")}
    assert Order.objects.aggregate(many=Count("tracking_number", distinct=True)) == {"many": 75}
    assert not children.filter(parent__pk__gt=F("pk")).exists()
    assert all(order.lines.aggregate(sum=Sum("subtotal"))["sum"] == order.amount for order in children)


def test_the_figures_are_those_of_the_services(
    past: Iterator[BulkOrder], lamp: Product, tent: Product, small: Variation
):
    insert(past)

    for row in (lamp, tent, small, lamp.shop, tent.shop):
        row.refresh_from_db()
    assert (lamp.quantity, lamp.sold_quantity) == (100, 3 * 20)  # five of the 25 are cancelled
    assert (tent.sold_quantity, small.sold_quantity) == (21, 21)  # four are refunded
    assert (lamp.shop.orders_count, tent.shop.orders_count) == (25, 25)
    # The first order has a cancelled and a refunded child.
    statuses = Order.objects.filter(parent=None).values_list("order_status").annotate(Count("pk"))
    assert dict(statuses) == {"refunded": 1, "complete": 24}


def test_refunded_orders_have_their_refunds(past: Iterator[BulkOrder], tent: Product):
    insert(past)

    refunded = Order.objects.filter(order_status="refunded", shop=tent.shop)
    assert set(Refund.objects.values_list("order", "customer", "shop", "amount", "status")) == {
        (order.pk, order.customer_id, tent.shop_id, 2000, "approved") for order in refunded
    }
    assert set(refunded.values_list("refunded_total", "parent__refunded_total")) == {(2000, 2000)}


def test_orders_are_inserted_in_chunks_after_existing_ones(
    past: Iterator[BulkOrder], monkeypatch: pytest.MonkeyPatch, customer: User, lamp: Product
):
    monkeypatch.setattr(bulk_insert, "ORDERS_PER_TRANSACTION", 10)
    before = buy(customer, (lamp, 1))

    assert insert(past) == [10, 10, 5]
    after = buy(customer, (lamp, 1))
    assert before.pk < Order.objects.filter(created_at=THEN).order_by("pk")[0].pk
    assert after.pk > Order.objects.filter(created_at=THEN).order_by("-pk")[0].pk
    assert move(after.children.get(), "complete").order_status == "complete"


def test_the_same_seed_draws_the_same_numbers(past: Iterator[BulkOrder]):
    orders = list(past)
    list(insert_orders(orders, random=Random(1)))
    first = list(Order.objects.order_by("pk").values_list("tracking_number", flat=True))
    Refund.objects.all().delete()
    OrderLine.objects.all().delete()
    Order.objects.filter(shop__isnull=False).delete()
    Order.objects.all().delete()
    list(insert_orders(orders, random=Random(1)))

    assert list(Order.objects.order_by("pk").values_list("tracking_number", flat=True)) == first
