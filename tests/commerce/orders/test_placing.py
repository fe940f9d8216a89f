"""Placing an order: its tree, its prices and its stock."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import DataError, IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.orders.models import Order, OrderLine
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ValidationFailed
from tests.commerce.orders.factories import Goods, buy, make_goods, make_variation, other_shop

pytestmark = pytest.mark.django_db

MONEY = ("amount", "sales_tax", "delivery_fee", "discount", "total", "paid_total", "refunded_total")


def money(order: Order) -> tuple[int, ...]:
    return tuple(getattr(order, name) for name in MONEY)


def refused(customer: User, *goods: Goods) -> dict[str, list[str]]:
    with pytest.raises(ValidationFailed) as refusal:
        buy(customer, *goods)
    assert not Order.objects.exists()
    assert refusal.value.problem.errors is not None
    return refusal.value.problem.errors


def test_an_order_has_a_parent_and_a_child_per_shop(shop: Shop, customer: User, settings: Settings):
    settings.TAX_RATE, settings.DELIVERY_FEE = 1900, 490
    lamp, shade = make_goods(shop), make_goods(shop, "shade", price=399, is_taxable=False)
    tent = make_goods(other_shop(), "tent", price=10000, sale_price=9000)

    parent = buy(customer, (lamp, 2), (tent, 1), (shade, 3), customer_contact="+49 30 1234")

    first, second = parent.children.order_by("shop")
    assert money(parent) == (2500 + 9000 + 1197, 2185, 490, 0, 15372, 15372, 0)  # 19 % of 115.00
    assert money(first) == (3697, 0, 0, 0, 3697, 3697, 0)
    assert money(second) == (9000, 0, 0, 0, 9000, 9000, 0)
    assert [(line.product, line.quantity, line.unit_price, line.subtotal) for line in first.lines.all()] == [
        (lamp, 2, 1250, 2500),
        (shade, 3, 399, 1197),
    ]
    for order in (parent, first, second):
        assert (order.customer, order.currency, order.order_status) == (customer, "EUR", "pending")
        assert order.customer_contact == "+49 30 1234"
    assert (parent.shop, first.shop, second.shop) == (None, shop, tent.shop)
    assert not parent.lines.exists()


def test_tracking_numbers_are_unique_and_unguessable(shop: Shop, customer: User):
    lamp = make_goods(shop)
    for _ in range(5):
        buy(customer, (lamp, 1))

    numbers = set(Order.objects.values_list("tracking_number", flat=True))
    assert len(numbers) == 10
    assert all(len(number) == 20 and number.startswith("S") for number in numbers)


@pytest.mark.parametrize(("price", "tax"), [(0, 0), (2, 0), (3, 1), (100, 19), (105, 20), (10**12, 19 * 10**10)])
def test_tax_is_rounded_half_up_to_the_minor_unit(shop: Shop, customer: User, settings: Settings, price: int, tax: int):
    settings.TAX_RATE = 1900

    assert buy(customer, (make_goods(shop, price=price), 1)).sales_tax == tax


def test_a_variation_has_its_own_price_and_stock(shop: Shop, customer: User):
    lamp = make_goods(shop, product_type=Product.Kind.VARIABLE, quantity=10)
    large = make_variation(lamp, sale_price=1800)

    parent = buy(customer, (lamp, 3, large))

    assert parent.amount == 5400
    assert OrderLine.objects.get().variation == large
    large.refresh_from_db()
    assert (large.quantity, large.sold_quantity) == (7, 3)


def test_stock_is_taken_and_the_shops_orders_are_counted(shop: Shop, customer: User):
    lamp = make_goods(shop)
    buy(customer, (lamp, 3), (lamp, 2))

    lamp.refresh_from_db()
    shop.refresh_from_db()
    assert (lamp.quantity, lamp.sold_quantity, shop.orders_count) == (95, 5, 1)


def test_products_out_of_stock_are_named_and_no_stock_is_taken(shop: Shop, customer: User):
    lamp, shade = make_goods(shop), make_goods(shop, "shade", quantity=1)

    assert list(refused(customer, (lamp, 1), (shade, 2))) == ["products.1"]
    lamp.refresh_from_db()
    assert lamp.quantity == 100


def test_unavailable_products_cannot_be_ordered(shop: Shop, customer: User):
    closed = other_shop()
    closed.is_active = False
    closed.save()
    unseen = [
        make_goods(shop, "draft", status=Product.Status.DRAFT),
        make_goods(closed, "closed"),
        Product(pk=2**63 - 1),
    ]

    errors = refused(customer, (make_goods(shop), 1), *((product, 1) for product in unseen))

    assert errors == {f"products.{position}.product_id": ["This product is not for sale."] for position in (1, 2, 3)}


def test_a_variable_product_is_bought_in_one_of_its_own_variations(shop: Shop, customer: User):
    lamp = make_goods(shop, product_type=Product.Kind.VARIABLE)
    other = make_variation(make_goods(shop, "other", product_type=Product.Kind.VARIABLE))
    simple = make_goods(shop, "simple")

    errors = refused(customer, (lamp, 1), (lamp, 1, other), (simple, 1, other))

    assert {field: texts[0] for field, texts in errors.items()} == {
        "products.0.variation_option_id": "This product is sold in variations: send the id of one of them.",
        "products.1.variation_option_id": "This product has no variation with this id.",
        "products.2.variation_option_id": "This product has no variation with this id.",
    }


def test_what_is_sold_out_is_refused_without_a_write(shop: Shop, customer: User):
    lamp, shade = make_goods(shop), make_goods(shop, "shade", quantity=1)

    with CaptureQueriesContext(connection) as context:
        errors = refused(customer, (lamp, 1), (shade, 2))

    assert errors == {"products.1": ["This product is not in stock in this quantity."]}
    assert [sql for query in context if (sql := query["sql"]).startswith(("INSERT", "UPDATE"))] == []


def test_all_lines_of_an_order_have_one_currency(shop: Shop, customer: User):
    euro, yen = make_goods(shop), make_goods(shop, "yen", currency="JPY")

    assert "EUR, JPY" in refused(customer, (euro, 1), (yen, 1))["products"][0]
    assert buy(customer, (yen, 2)).currency == "JPY"


def test_an_order_with_too_large_a_total_is_refused(shop: Shop, customer: User):
    dear = make_goods(shop, price=10**12, quantity=10_000)

    assert refused(customer, (dear, 11)) == {
        "products": ["The total of this order is too large: place several orders."]
    }
    assert buy(customer, (dear, 10)).amount == 10**13


def test_an_order_takes_a_constant_number_of_queries(shop: Shop, customer: User, django_assert_max_num_queries):
    lamps = [make_goods(shop, f"lamp-{number}") for number in range(20)]

    with django_assert_max_num_queries(20 + 16):  # one per line for its stock, and a constant number
        buy(customer, *((lamp, 1) for lamp in lamps))


@pytest.mark.django_db(transaction=True)
def test_fifty_concurrent_orders_never_oversell(shop: Shop, customer: User):
    lamp = make_goods(shop, quantity=20)
    shade = make_goods(other_shop(), "shade")
    together = threading.Barrier(50)

    def order(number: int) -> bool:
        together.wait(timeout=60)
        goods = ((lamp, 1), (shade, 1)) if number % 2 else ((shade, 1), (lamp, 1))
        try:
            buy(customer, *goods)
        except ValidationFailed:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(50) as pool:
        placed = sum(pool.map(order, range(50)))

    lamp.refresh_from_db()
    shade.refresh_from_db()
    shop.refresh_from_db()
    assert (placed, lamp.quantity, lamp.sold_quantity, shade.quantity, shop.orders_count) == (20, 0, 20, 80, 20)
    assert Order.objects.filter(parent=None).count() == 20


@pytest.mark.parametrize(
    "change",
    [
        {"total": 1},
        {"amount": -1},
        {"discount": 1251},
        {"paid_total": 1251},
        {"refunded_total": 1251},
        {"order_status": "lost"},
        {"currency": "eur"},
        {"parent": None},
        {"shop": None},
        {"sales_tax": 1, "total": 1251},
    ],
)
def test_the_database_refuses_an_invalid_order(shop: Shop, customer: User, change: dict[str, object]):
    child = buy(customer, (make_goods(shop), 1)).children.get()

    with pytest.raises((IntegrityError, DataError)):
        Order.objects.filter(pk=child.pk).update(**change)


@pytest.mark.parametrize("change", [{"quantity": 0}, {"quantity": 2}, {"unit_price": 2}, {"subtotal": 1}])
def test_the_database_refuses_a_line_that_does_not_add_up(shop: Shop, customer: User, change: dict[str, int]):
    buy(customer, (make_goods(shop), 1))

    with pytest.raises((IntegrityError, DataError)):
        OrderLine.objects.update(**change)
