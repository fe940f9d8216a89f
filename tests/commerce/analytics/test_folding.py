"""When a customer first ordered, as orders go while others wait to be folded or rebuilt."""

from datetime import datetime, timedelta
from random import Random

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from commerce.analytics import reconcile, services
from commerce.analytics.models import Entry
from commerce.orders.bulk import PastLine, PastOrder, insert_past_orders
from commerce.orders.models import Order
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.analytics.market import Market, assert_right, delete_tree, make_order, run_sql, told
from tests.commerce.conftest import make_user
from tests.commerce.databases import plan_of


def test_what_is_looked_up_for_some_entries_is_as_of_them(market: Market, now: datetime):
    customer, products = market.customers[0], market.products[:1]
    first = make_order(customer, products, at=now - timedelta(days=20))
    services.fold(now=now)
    delete_tree(first)
    of_the_first = Entry.objects.count()
    second = make_order(customer, products, at=now - timedelta(days=10))
    assert services.fold_some(now=now, most=of_the_first) == of_the_first
    delete_tree(second)
    services.fold(now=now)

    assert reconcile.differences() == []
    assert_right(market, now)


def test_what_is_looked_up_while_a_rebuild_runs_is_as_of_what_it_has(market: Market, now: datetime):
    customer, products = market.customers[0], market.products[:1]
    first = make_order(customer, products, at=now - timedelta(days=20))
    second = make_order(customer, products, at=now - timedelta(days=10))
    services.fold(now=now)
    services.rebuild_some(now=now)
    assert services.rebuild_some(now=now, most=1).up_to == first.pk
    for order in (first, second):
        delete_tree(order)
        services.fold(now=now)
    while not services.rebuild_some(now=now).is_complete:
        pass

    assert reconcile.differences() == []
    assert_right(market, now)


def first_orders_go(market: Market, now: datetime, way: str, customers: int) -> int:
    """Each of so many customers has two orders in both shops of an owner, and the first one goes. Answers how many
    queries the owner costs who asks then, with the fold."""
    for _ in range(customers):
        customer = make_user(Role.CUSTOMER, f"customer-{Order.objects.count()}")
        for days in (50, 20):
            make_order(customer, market.products[:4], at=now - timedelta(days=days))
    services.keep_up(now=now)
    told(market.clients["owner"], "analytics")
    first = Order.objects.filter(created_at__lt=now - timedelta(days=40))
    if way == "moved":
        first.update(created_at=F("created_at") + timedelta(days=35))
    else:
        for order in first.filter(parent=None):
            delete_tree(order)
    with CaptureQueriesContext(connection) as queries:
        told(market.clients["owner"], "analytics")
        services.fold(now=now)
    number = len(queries)
    assert reconcile.differences() == []
    assert_right(market, now)
    return number


@pytest.mark.parametrize("way", ["moved", "deleted"])
def test_more_orders_that_go_cost_no_more_queries(market: Market, now: datetime, way: str):
    of_one = first_orders_go(market, now, way, customers=1)

    assert first_orders_go(market, now, way, customers=5) == of_one


def test_the_orders_that_a_customer_has_left_are_found_by_an_index(market: Market, now: datetime):
    lamp = market.products[0]
    line, endings = PastLine(lamp.shop_id, lamp.pk, 1, 1250), {lamp.shop_id: "complete"}
    customers = User.objects.bulk_create(User(email=f"{number}@example.com") for number in range(300))
    orders = [PastOrder(customer.pk, now - timedelta(days=2), "EUR", (line,), endings) for customer in customers]
    list(insert_past_orders(orders, random=Random(1)))
    services.fold(now=now)
    Order.objects.filter(customer__in=customers[:2], parent=None).update(created_at=now)
    with CaptureQueriesContext(connection) as queries:
        told(market.clients["owner"], "analytics")
        services.fold(now=now)
    look_ups = [query["sql"] for query in queries if "remaining" in query["sql"]]

    run_sql(f"ANALYZE {Order._meta.db_table}")
    assert ["commerce_order_of_pair" in plan_of(look_up) for look_up in look_ups] == [True, True]
