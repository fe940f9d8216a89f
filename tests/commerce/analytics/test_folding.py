"""When a customer first ordered, as orders go while others wait to be folded or rebuilt."""

from datetime import datetime, timedelta

from commerce.analytics import reconcile, services
from commerce.analytics.models import Entry
from tests.commerce.analytics.market import Market, assert_right, delete_tree, make_order


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
