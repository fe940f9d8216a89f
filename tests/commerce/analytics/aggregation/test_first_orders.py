"""First orders of customers, as orders are deleted during aggregation and rebuilds."""

from datetime import datetime, timedelta
from random import Random

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from commerce.analytics import services
from commerce.analytics.aggregation.batches import aggregate_batch, aggregate_ledger
from commerce.analytics.aggregation.rebuild import rebuild_step
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.models import LedgerEntry
from commerce.orders.bulk_insert import BulkOrder, BulkOrderLine, insert_orders
from commerce.orders.models import Order
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.analytics.factories import (
    Market,
    assert_analytics_correct,
    delete_order_tree,
    get_json,
    make_order,
    run_sql,
)
from tests.commerce.conftest import make_user
from tests.commerce.databases import plan_of


def test_recomputing_for_a_batch_ignores_later_entries(market: Market, now: datetime):
    customer, products = market.customers[0], market.products[:1]
    first = make_order(customer, products, at=now - timedelta(days=20))
    aggregate_ledger(now=now)
    delete_order_tree(first)
    first_entries = LedgerEntry.objects.count()
    second = make_order(customer, products, at=now - timedelta(days=10))
    assert aggregate_batch(now=now, limit=first_entries) == first_entries
    delete_order_tree(second)
    aggregate_ledger(now=now)

    assert find_differences() == []
    assert_analytics_correct(market, now)


def test_recomputing_during_a_rebuild_ignores_orders_it_has_not_read(market: Market, now: datetime):
    customer, products = market.customers[0], market.products[:1]
    first = make_order(customer, products, at=now - timedelta(days=20))
    second = make_order(customer, products, at=now - timedelta(days=10))
    aggregate_ledger(now=now)
    rebuild_step(now=now)
    assert rebuild_step(now=now, limit=1).last_id == first.pk
    for order in (first, second):
        delete_order_tree(order)
        aggregate_ledger(now=now)
    while not rebuild_step(now=now).is_complete:
        pass

    assert find_differences() == []
    assert_analytics_correct(market, now)


def count_queries_after_loss(market: Market, now: datetime, change: str, customers: int) -> int:
    """Give each customer two orders from both shops of an owner, and move or delete the first one.

    Return the number of queries of the owner's next read and of the aggregation.
    """
    for _ in range(customers):
        customer = make_user(Role.CUSTOMER, f"customer-{Order.objects.count()}")
        for days in (50, 20):
            make_order(customer, market.products[:4], at=now - timedelta(days=days))
    services.run_maintenance(now=now)
    get_json(market.clients["owner"], "analytics")
    first = Order.objects.filter(created_at__lt=now - timedelta(days=40))
    if change == "moved":
        first.update(created_at=F("created_at") + timedelta(days=35))
    else:
        for order in first.filter(parent=None):
            delete_order_tree(order)
    with CaptureQueriesContext(connection) as queries:
        get_json(market.clients["owner"], "analytics")
        aggregate_ledger(now=now)
    number = len(queries)
    assert find_differences() == []
    assert_analytics_correct(market, now)
    return number


@pytest.mark.parametrize("change", ["moved", "deleted"])
def test_more_lost_orders_need_no_more_queries(market: Market, now: datetime, change: str):
    for_one = count_queries_after_loss(market, now, change, customers=1)

    assert count_queries_after_loss(market, now, change, customers=5) == for_one


def test_remaining_orders_of_a_customer_are_found_by_an_index(market: Market, now: datetime):
    lamp = market.products[0]
    line, endings = BulkOrderLine(lamp.shop_id, lamp.pk, 1, 1250), {lamp.shop_id: "complete"}
    customers = User.objects.bulk_create(User(email=f"{number}@example.com") for number in range(300))
    orders = [BulkOrder(customer.pk, now - timedelta(days=2), "EUR", (line,), endings) for customer in customers]
    list(insert_orders(orders, random=Random(1)))
    aggregate_ledger(now=now)
    Order.objects.filter(customer__in=customers[:2], parent=None).update(created_at=now)
    with CaptureQueriesContext(connection) as queries:
        get_json(market.clients["owner"], "analytics")
        aggregate_ledger(now=now)
    look_ups = [query["sql"] for query in queries if "remaining" in query["sql"]]

    run_sql(f"ANALYZE {Order._meta.db_table}")
    assert ["commerce_order_of_pair" in plan_of(look_up) for look_up in look_ups] == [True, True]
